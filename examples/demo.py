"""Who infected whom? A simulated outbreak with dates, wards and DNA; the truth is kept aside."""

from pathlib import Path

from outtrees import Ancestry
from outtrees.datasets import make_outbreak
from outtrees.io import write_csv, write_text


def main() -> None:
    """Write the records, find the parents, and say how many are right."""
    folder = Path("outtrees-demo")
    folder.mkdir(exist_ok=True)
    outbreak = make_outbreak(40, random_state=7)
    cases, dna = folder / "cases.csv", folder / "dna.fasta"
    write_csv(cases, outbreak.table)
    write_text(dna, "".join(f">{name}\n{text}\n" for name, text in outbreak.sequences.items()))

    found = Ancestry(id="case", roots="any", random_state=0).fit(cases, sequences=dna)
    print(found.records.describe(), "\n")
    for sentence in found.describe():
        print(f"- {sentence}")
    print(f"\n{found.parents(min_support=0.1)}\n")

    ids, parents = found.records.ids, found.tree()
    said = {name: ids[p] if p >= 0 else "" for name, p in zip(ids, parents, strict=True)}
    right = sum(said[name] == infector for name, infector in outbreak.infectors.items())
    print(
        f"{right} of {len(ids)} parents right, as promised by the supports: "
        f"{found.expected_right_:.1f} expected."
    )
    found.to_csv(folder / "parents.csv")
    found.to_newick(folder / "tree.newick")
    print(f"Report: {found.report(folder / 'report.html', command='make demo')}")


if __name__ == "__main__":
    main()
