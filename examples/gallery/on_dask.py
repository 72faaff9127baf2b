"""The same model from several processes.

Sums have the same bits in any order, so that parts of the documents, on any engine, give the model of one machine.
"""

import surebayes as sb
from surebayes import cluster, synthetic


def main() -> None:
    """Fit on two worker processes, and once more here."""
    from dask.distributed import Client, LocalCluster

    documents, labels = synthetic.as_lists(1200, seed=4)
    texts = [mail.decode("utf-8", "replace") for mail in documents]
    X = sb.HashingVectorizer(n_features=2**16, alternate_sign=False, norm=None).transform(texts)
    parts = [(X[i : i + 300], labels[i : i + 300]) for i in range(0, 1200, 300)]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers, Client(workers) as client:
        apart = cluster.fit_dask(sb.OpinionPoolNB(), parts, client)
    together = sb.OpinionPoolNB().fit(X, labels)
    same = bool((apart.decision_function(X) == together.decision_function(X)).all())
    print(f"fitted on two processes; scores equal to one process, bit for bit: {same}")
    assert same


if __name__ == "__main__":
    main()
