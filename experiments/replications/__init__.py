"""Methods that no notebook calls and that our own pages call not worth their bytes.

Each is one file, which stands on the package as a file of your own would. Not installed.

    adaptive    compression that changes during the run
    lowrank     a matrix as the product of two thin ones, rows in a fixed subspace
    entropy_schedule  a low rank that follows the gradient's entropy
    adapters    LoRA factors of several clients, averaged exactly
    drift       owners who differ: steps that are corrected for it
    personal    owners who differ: parts of a model, or a model, that stay at home
    asynchronous  a server that does not wait for a round: FedBuff
    shared_places  fewer values in secret sums, at random places
    dgc         top-k whose memory holds momentum, too
    moments     the moments of the workers' optimizers, averaged less often than the weights
    outer_momentum  DiLoCo's outer momentum, begun anew from time to time, or an average
    streaming   DiLoCo that sends a fragment of the model at a time, and computes meanwhile
    gossip      no server: a random partner, or a few random values of all, averaged
    decoupled_momentum  momentum of which only the fast part is sent
    ef21_muon   Muon whose two ends send compressed changes of what the other knows
    forward_only  clients of split learning without a backward pass
    zeroth_order  seeds and scalars in place of gradients
    distill     prototypes by k-means, and distilled samples
    yogi        the server optimizer of FedYogi
    noisy_sum   noise that each client adds before a secure sum
    updates     what a model's update says about the samples that it was learned from
    intersection  which samples two owners have in common, found without showing the others
    deflate     zlib as a coder, for comparison
    zstandard   Zstandard as a coder
    jpeg        images as JPEG files
    shrink      fewer pixels
"""
