"""Engines run the same parties in several processes or on several machines.

    remote              stand-ins for parties and gates that live in another process
    ddp_hook            bytes and codecs of DistributedDataParallel, in a script that you have
    torch_distributed   parties in one process or several, over gloo (`_peers`: the envelopes)
    flower_meter        bytes and codecs of an app of Flower that you have
    nvflare_meter       bytes and codecs of a job of NVFlare that you have (`_framed`: both meters)
    syft                datasites of PySyft: data that stay with their owner
    syft_channel        messages between datasites
    syft_jobs           training in the owner's process, after the owner has approved the code

If the library of an engine is missing, the error names the pip line that installs it. Nothing else
in the package imports an engine.
"""
