"""Where training together sends fewer bytes than the data, and where it does not.

CIFAR-10 (JPEG copies): owners who average a small network, both ways compressed, beside owners who
send their pictures to one place. ``python -m experiments.send_data --help``. Modules:

    pictures    the JPEG files as one message, as they are or made smaller; what arrives
    training    the network, its batches, and how owners learn, on a CPU or a GPU
    settings    what is compared
    run         one run of one setting: bytes and accuracy as they grow
    law         bytes that settings predict, beside those that were sent
    leak        the third axis: what the receiver learns about images, on MNIST
    report      the tables of docs/send_the_data.md
"""
