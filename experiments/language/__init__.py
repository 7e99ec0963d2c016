"""Language models on the byte axis: what does a nat less cost, in bytes really sent?

task            the text, the model, the schedule, the loss on held-out text
data_parallel   workers that train one model: every step, DiLoCo and its relatives
"""
