"""The part of federated that is in experiments.

adaptive    compression that changes during the run
adapters    LoRA factors of several clients, averaged exactly
"""
