def test_x():
    import toolcredit
    assert toolcredit.__version__
