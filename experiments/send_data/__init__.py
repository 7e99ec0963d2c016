"""Where training together sends fewer bytes than the data, and where it does not.

CIFAR-10 (JPEG copies): owners who average a small network, both ways compressed, beside owners who
send their pictures to one place. ``python -m experiments.send_data --help``. Modules:

    pictures    the JPEG files as one message, as they are or made smaller; what arrives
    training    the network, and steps of one or of many copies of it, on a CPU or a GPU
    settings    what is compared
    run         one run of one setting: bytes and accuracy as they grow
    report      the tables and the figure of docs/send_the_data.md
"""
