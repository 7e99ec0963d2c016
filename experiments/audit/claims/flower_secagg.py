"""Bits per value of Flower's SecAgg+."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="Flower: SecAgg+ with a modulus of 2^32",
    group="systems",
    says='"quantization_range: int = 4194304, modulus_range: int = 4294967296": values are rounded '
    "to 2^22 levels and masked modulo 2^32, so that 32 bits hold a masked value.",
    source="Flower, flwr.server.workflow.SecAggPlusWorkflow, "
    "https://flower.ai/docs/framework/ref-api/flwr.server.workflow.SecAggPlusWorkflow.html",
    known="code",
    ours="flwr 1.41.0 as it installs, November 2026: ten clients go through the four stages of its "
    "client code, and its own serializer makes the bytes (python -m "
    "experiments.secrecy.flower_secagg, in the environment of make flower). 25,450 values.",
    no_command="it has a command of its own, `python -m experiments.secrecy.flower_secagg`, in "
    "Flower's environment",
    judge=by_hand(
        Verdict.UNTESTED,
        "64.15 bits per value are sent: masked numbers below 2^32 travel as int64. It is as many "
        "for values that were int8 before. Keys and shares are 6.7 kB per client. `SecureSum` "
        "sends 12 bits per value for 8-bit values of ten clients. Read in the source: a mask is "
        "drawn from 32 bits, into which the key is folded.",
    ),
)
