from course.answers import Case

STEP = {"batch_size": 16, "context": 64, "width": 64, "bits": 2}  # 65,536 values
LORA = {"rows": 256, "columns": 64, "rank": 4}
CASES = {
    "characters that Bob is given": Case(facts={"context": 64}, right=[63], wrong=[64, 0, 1, 32]),
    "bytes of the activations of a step": Case(
        facts=STEP, right=[16 * 64 * 64 * 2 / 8], wrong=[131_072, 262_144, 256, 32_768, 4_096]
    ),
    "values of a LoRA": Case(facts=LORA, right=[4 * 320], wrong=[16_384, 1_024, 256, 65_536, 320]),
}
