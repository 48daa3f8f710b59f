"""What a notebook of the time opens vars.pkl with; joblib reads plain pickles, too."""

import pickle


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)
