"""The same parties elsewhere. Each engine names its pip line when what it needs is missing.

    remote              stand-ins for parties and gates that live in another process
    torch_distributed   one process a party, over gloo or NCCL
    flower              federated averaging over Flower
    syft                datasites of PySyft: data that stay with their owner
    syft_channel        messages between datasites
    syft_jobs           training at the owner's, on approval

Nothing in the package imports an engine.
"""
