"""The heads: log-probabilities, entropies and values of rows, with gradients.

choice_kernels.py   softmax over choices: discrete and conditional multi-discrete actions
select_kernels.py   softmax over entities
number_kernels.py   normal distributions: continuous actions
value_kernels.py    the value of a step
"""
