"""What a newcomer stumbles over in the first hour, each as a test; on a real broker.

    test_starts           protections that cannot be had, busy ports, missing places and files,
                          well-known passwords, plain loops, the greeting
    test_sending          bytes as they are, lines as they come, bounded memory, files, Ctrl-C
    test_wrong_inputs     the table of wrong inputs, word for word: nothing is nameless
    test_accounts         options, contexts, kept logins, missing permissions, locked-out logins
    test_commands         help, nearest names, completion, units, top, demo, doctor, archives, JSON

Elsewhere: the launcher, which builds borzoi once (tests/tidy/test_launcher.py); tables of 80
columns and reports that say when they were disturbed (tests/bench/test_reports.py); the number of
shuffle partitions (tests/spark/test_java.py).
"""
