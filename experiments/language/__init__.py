"""Language models on the byte axis: what does a nat less cost, in bytes really sent?

task            the text, the model, the schedule, the loss on held-out text
data_parallel   workers that train one model: every step, DiLoCo and its relatives

split           a transformer cut between its blocks, and U-shaped
finetune        owners that fine-tune one pretrained model
inversion       characters found in the activations at a cut
command         the command line of these three: python -m experiments.language.split
"""
