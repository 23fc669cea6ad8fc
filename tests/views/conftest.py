"""Figures of one test are not those of the next."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def no_open_figures():
    plt.close("all")
    yield
    plt.close("all")
