"""Who has handed in what; what `grade` keeps; tables that a person fills; pages and the LMS.

Nothing of a student's is run here.
"""

import csv
import html
import json
import os
import threading
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from playing import FOLDER, master_of

from fltoolkit_grading import cli, gradebook, grading
from fltoolkit_grading.gradebook import add_manual
from fltoolkit_grading.grading import AGAIN, UNREAD, Grade
from fltoolkit_grading.master import AssignmentError
from fltoolkit_grading.names import find_submissions, handed_in_as, name_notes, whose

MOODLE = "{}_{}_assignsubmission_file_"
STEP = "a1-step-weights"


def put(folder, *names):
    """Empty files of these names below a folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


# ------------------------------------------------------------------------ names of files
def test_everybody_is_found_under_a_name(tmp_path):
    put(tmp_path, "ben k.ipynb", "Kim.IPYNB", "lea.ipynb.txt", "Zoe\u0308.ipynb", "max.zip")
    put(tmp_path, ".DS_Store", "two/a.ipynb", "two/b.ipynb", "uli/x.IPYNB", "pia/notes.pdf")
    put(tmp_path, "uli/.ipynb_checkpoints/x.ipynb", "uli/__MACOSX/._x.ipynb", "uli/._x.ipynb")
    put(tmp_path, "__MACOSX/._x.ipynb", "a" * 252, "b" + "é" * 120)
    found = {
        name: str(path.relative_to(tmp_path)) for name, path in find_submissions(tmp_path).items()
    }
    assert {name: path for name, path in found.items() if len(name) < 50} == {
        "Kim": "Kim.IPYNB",
        "Zoë": "Zoe\u0308.ipynb",
        "ben_k": "ben k.ipynb",
        "lea": "lea.ipynb.txt",
        "max": "max.zip",
        "pia": "pia",
        "two": "two/b.ipynb",  # the newest, or else the last by name
        "uli": "uli/x.IPYNB",
    }
    # long names leave room for what is appended
    assert sorted(len(name.encode()) for name in found if len(name) > 50) == [199, 200]
    os.utime(tmp_path / "two" / "b.ipynb", (1, 1))
    assert find_submissions(tmp_path)["two"].name == "a.ipynb"
    found = find_submissions(tmp_path)
    (tmp_path / "ben k.ipynb").unlink()  # while others were graded
    notes = name_notes(tmp_path, found)
    assert notes["two"] == ["several notebooks: graded the newest, 'a.ipynb'"]
    assert notes["ben_k"] == ["handed in as 'ben k.ipynb'"]
    put(tmp_path, "all.zip/a")
    zipped = tmp_path / "class.zip"
    zipped.touch()
    with pytest.raises(AssignmentError, match=r"class\.zip: no such folder .* unpack it first"):
        find_submissions(zipped)


@pytest.mark.parametrize(
    ("same", "different"),
    [
        (
            "ana Ana ANA ａｎａ 𝒶𝓃𝒶 a\u200bna an\u202ea ana\ufe0f ana\u3164 ana\u00ad an\u034fa",
            "ann anna",
        ),
        ("ben_k ben?k BEN!K", "ben-k benk"),
        ("André andré ANDRE\u0301", "Andre"),
        ("李明", "李朋 김 박 Ian Lan Иван"),
    ],
)
def test_names_that_differ_in_case_or_style_all_get_an_addition(tmp_path, same, different):
    """So nobody takes another's name; names that two people may have stay as they are."""
    same, different = same.split(), different.split()
    put(tmp_path, *(f"{name}.ipynb" for name in (*same, *different)))
    found = find_submissions(tmp_path)
    assert {*different} <= {*found}
    changed = {name for name in found if "~" in name}
    assert len(changed) == len(same) * (len(same) > 1)
    assert len(found) == len(same) + len(different)
    notes = name_notes(tmp_path, found)
    for name in found:
        alike = [note for note in notes[name] if "ask who handed it in" in note]
        assert len(alike) == (len(same) - 1) * (name in changed), name
    put(tmp_path, f"{same[0]}.pdf")
    assert changed <= {*find_submissions(tmp_path)}  # who came first keeps the name


def test_what_canvas_and_moodle_give_out_finds_its_way_back(tmp_path):
    """From the names in a download to the column and the zip that are given back."""
    handed_in = {
        "canvas": {
            "armana_90017_552301_1_splitnn-2.ipynb": 1,
            "beeben_LATE_90018_552302_1_splitnn.ipynb": 2,
            "clarkcem_90019_552310_1_splitnn.ipynb": 3,
            "clarkcem_90019_552309_1_splitnn.ipynb": 0,  # an older attachment
            "clarkcem_90019_552311_notes.pdf": 0,
            # what a student called the file is not read as another's number, and may be no text
            "dendan_90020_552312_a_90017_assignsubmission_file_\udce4.ipynb": 4,
        },
        "moodle": {
            "Ana Arm_1234_assignsubmission_file_/1_splitnn.ipynb": 1,
            "Ben Bee_1235_assignsubmission_file_1_splitnn.ipynb": 2,
            "Ben Bee_1236_assignsubmission_file_1_splitnn.ipynb": 3,  # another of this name
        },
    }
    rosters = {
        "canvas": "Student,ID,SIS User ID,SIS Login ID,Section,A 1 (77)\n"
        '    Points Possible,,,,,12\n"Arm, Ana",90017,s1,a@x.org,S,\n'
        '"Bee, Ben",90018,s2,b@x.org,S,\n"Clark, Cem",90019,s3,c@x.org,S,\n'
        '"Den, Dan",90020,s4,d@x.org,S,\n',
        "moodle": "Identifier,Full name,Email address,Status,Grade,Maximum Grade\n"
        "Participant 1234,Ana Arm,a@x.org,Submitted for grading,,12.00\n"
        "Participant 1235,Ben Bee,b@x.org,Submitted for grading,,12.00\n"
        "Participant 1236,Ben Bee,c@x.org,Submitted for grading,,12.00\n",
    }
    back = {
        "canvas": [
            "armana_90017_552301_1_splitnn-2.html",
            "beeben_LATE_90018_552302_1_splitnn.html",
            "clarkcem_90019_552310_1_splitnn.html",
            "dendan_90020_552312_a_90017_assignsubmission_file_?.html",
        ],
        "moodle": [
            "Ana Arm_1234_assignsubmission_file_/feedback.html",
            "Ben Bee_1235_assignsubmission_file_/feedback.html",
            "Ben Bee_1236_assignsubmission_file_/feedback.html",
        ],
    }
    for system, names in handed_in.items():
        inside, out = tmp_path / system / "in", tmp_path / system / "out"
        for name, points in names.items():
            put(inside, name)
            (inside / name).write_text(str(points))
        found = find_submissions(inside)
        results = [
            Grade(who, {STEP: int(path.read_text())}, handed_in=handed_in_as(inside, path))
            for who, path in found.items()
        ]
        gradebook.write(master_of(1), results, out)
        with zipfile.ZipFile(out / "feedback.zip") as archive:
            assert archive.namelist() == back[system]
            assert f"{results[0].student}: 1 of 12 points" in archive.read(back[system][0]).decode()
        roster, column = tmp_path / "roster.csv", {"canvas": "A 1 (77)", "moodle": "Grade"}[system]
        roster.write_text(rosters[system])
        done = gradebook.fill_lms(roster, results, tmp_path / "import.csv", column=column)
        assert done == ([], [])
        lines = (tmp_path / "import.csv").read_text().splitlines()[-len(results) :]
        given = [line.removesuffix(",12.00").rsplit(",", 1)[1] for line in lines]
        assert given == [f"{number}" for number in range(1, len(results) + 1)]
    canvas = tmp_path / "canvas" / "in"
    notes = name_notes(canvas, find_submissions(canvas))
    assert "3 files from Canvas: graded 'clarkcem_90019_552310_1_splitnn.ipynb'" in str(notes)


def test_an_online_text_of_moodle_is_no_second_student(tmp_path):
    """Nor are two files without folders; who wrote only an online text is not lost."""
    put(tmp_path, "Ben Berg_1202_assignsubmission_file_/1.ipynb")
    put(tmp_path, "Ben Berg_1202_assignsubmission_onlinetext_/onlinetext.html")
    put(tmp_path, "Cem Can_1203_assignsubmission_onlinetext_/onlinetext.html")
    put(tmp_path, *(f"Dan Dur_1204_assignsubmission_file_{name}" for name in ("1.ipynb", "a.pdf")))
    put(tmp_path, "Eve Elm_1205_assignsubmission_file_/work.zip")
    found = find_submissions(tmp_path)
    assert {who: path.name for who, path in found.items()} == {
        "Ben_Berg_1202": "1.ipynb",
        "Cem_Can_1203": "Cem Can_1203_assignsubmission_onlinetext_",
        "Dan_Dur_1204": "Dan Dur_1204_assignsubmission_file_1.ipynb",
        "Eve_Elm_1205": "work.zip",
    }
    ben = name_notes(tmp_path, found)["Ben_Berg_1202"]
    text = "'Ben Berg_1202_assignsubmission_onlinetext_'"
    assert f"2 files from Moodle: graded {ben[1][13:]}, and not {text}" == ben[0]
    results = [Grade(who, handed_in=MOODLE.format("Ben Berg", 1202)) for who in ("ben", "twin")]
    gradebook.write(master_of(1), results, tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "out" / "feedback.zip") as archive:
        assert len({*archive.namelist()}) == 2


# ------------------------------------------------------------------------ what `grade` keeps
@pytest.fixture
def graded(tmp_path, monkeypatch):
    """`grade` of some files, without processes; ``each`` makes what comes of a student."""
    put(tmp_path / "in", *(f"{name} x.ipynb" for name in "abcde"))
    monkeypatch.setattr(grading, "_check_tools", lambda fenced: None)
    monkeypatch.setattr(grading, "_check_places", lambda *_: None)
    monkeypatch.setattr(grading, "_undeserved", lambda *_: [])
    monkeypatch.setattr(
        grading, "expected_outputs", lambda _, seeds, **__: {seed: {"of": seed} for seed in seeds}
    )

    def graded(each=lambda student, seed: Grade(student), out="out", **how):
        def grade_one(student, path, master, seed, expected, **_):
            assert expected == {"of": seed}  # of the master's own solution, with this seed
            return each(student, seed)

        monkeypatch.setattr(grading, "grade_one", grade_one)
        return grading.grade(tmp_path / "in", master_of(1), tmp_path / out, **how)

    return graded


def test_a_stopped_run_begins_nothing_new_and_keeps_what_it_did(graded, tmp_path, monkeypatch):
    done, stopped, shutdown = [], threading.Event(), grading.ThreadPoolExecutor.shutdown

    def each(student, seed):
        done.append(student)
        assert len(done) == 1 or stopped.wait(600)
        return Grade(student)

    def stop(results, total):
        yield next(results)
        raise KeyboardInterrupt

    def told(pool, **how):
        shutdown(pool, wait=False, **how)
        stopped.set()
        shutdown(pool)

    monkeypatch.setattr(grading.ThreadPoolExecutor, "shutdown", told)
    with pytest.raises(KeyboardInterrupt):
        graded(each, progress=stop)
    assert len(done) <= 2, "one was done, and one may have begun"
    assert {path.stem for path in (tmp_path / "out" / "results").iterdir()} == set(done)
    assert len(graded(each)) == len(done) == 5
    assert graded(each)[0].notes == ["handed in as 'a x.ipynb'"]  # also when it is kept


def test_what_breaks_the_grader_is_one_students_status(graded):
    """And it is tried again the next time, it alone."""
    broken, tried = True, []

    def each(student, seed):
        tried.append(student)
        if student == "a_x" and broken:
            raise RecursionError("too deep")
        return Grade(student, {STEP: 1.0})

    first, *others = graded(each)
    assert first.status == "not graded, run grade again: RecursionError: too deep"
    assert sum(first.points.values()) == first.total == 0
    assert [result.total for result in others] == [1] * 4
    broken, tried = False, []
    assert [result.total for result in graded(each)] == [1] * 5
    assert tried == ["a_x"]


def test_what_a_hand_in_shows_about_its_seed_is_of_no_use_for_the_next_one(graded, tmp_path):
    """Another file has another seed; the same file has the same one, so that a grading can be
    repeated; and nobody can compute one without the secret.
    """

    def seeds(out="out", **files):
        for name, text in files.items():
            (tmp_path / "in" / f"{name} x.ipynb").write_text(text)
        found = {}
        graded(lambda who, seed: found.setdefault(who[0], seed) and Grade(who), out)
        return found

    first = seeds(a="one", b="two", c="one")
    assert first["a"] == first["c"] != first["b"]
    assert seeds() == {}  # the results are kept
    assert seeds(a="three")["a"] not in first.values()
    assert seeds(a="one") == {"a": first["a"]}
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "seed.json").write_bytes((tmp_path / "out" / "seed.json").read_bytes())
    assert seeds("again") == first
    assert not {*seeds("others").values()} & {*first.values()}


def test_one_folder_of_grades_for_one_assignment(tmp_path):
    path = tmp_path / "seed.json"
    seed = grading._keep_seed(path, "1_one")
    assert grading._keep_seed(path, "1_one") == seed
    with pytest.raises(AssignmentError, match="holds the grades of 1_one"):
        grading._keep_seed(path, "2_two")
    for content in ("", "[]", '{"1_one": "x"}'):
        path.write_text(content)
        with pytest.raises(AssignmentError, match=r"seed\.json cannot be read: .* bring back a"):
            grading._keep_seed(path, "1_one")


def test_grades_are_no_submission_and_nothing_a_student_could_read(tmp_path, monkeypatch):
    """As when the course's folder is itself a virtual environment."""
    for out in ("in/grades", "in"):
        with pytest.raises(AssignmentError, match="give an --out outside it"):
            grading._check_places(tmp_path / "in", tmp_path / out, tmp_path)
    monkeypatch.setattr(grading.fence, "always_readable", lambda: ["/usr", str(tmp_path)])
    with pytest.raises(AssignmentError, match="every student's code can read: move it"):
        grading._check_places(Path("/in"), Path("/out"), tmp_path / "master.ipynb")


# ------------------------------------------------------------------------ tables of a person
def sheet(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "total", "after"),
    [
        ("student,comment,a1-privacy\nana,good,0.5\n", 0.5, "ana,good,0.5"),
        ("student;a1-privacy\nana;0,5\nben;1\n", 0.5, "ben;1"),  # Excel in many countries
        ("\ufeffstudent,a1-privacy\nana,0.5\n,\n", 0.5, "ana,0.5"),
        ("student,comment\nana,good\n", 0, "ana,good,"),
        ("student,a1-privacy\nann,1\n", 0, "ann,1"),  # nobody here: it is reported, and kept
        ("student,a1-privacy\nana,\nAna@x.org,1\n", 1, "Ana@x.org,1"),
        ("student,a1-privacy\nana,\n'=cmd,\n", 0, "'=cmd,"),  # no formula for a spreadsheet
    ],
)
def test_a_sheet_keeps_what_a_person_wrote(tmp_path, text, total, after):
    sheet(tmp_path, "by_hand.csv", text)
    for _ in range(2):  # grading again changes nothing
        result = Grade("ana")
        unknown = gradebook.write(master_of(1), [result, Grade("=cmd")], tmp_path)
        assert result.total == total
        lines = (tmp_path / "by_hand.csv").read_text().splitlines()
        assert after in lines
        assert sum("=cmd" in line for line in lines) == 1
        assert len(unknown) == ("ben" in text) + ("ann" in text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("student,a1-privacy\nZoë,1\n".encode("latin-1"), "CSV UTF-8"),
        (b"name,a1-privacy\nana,1\n", "needs .*'student'"),
        (b"student,a1-privacy,a1-privacy\nana,1,0\n", "each name only once"),
        (b"student,a1-privacy\nana,1\nana,0\n", "has two rows"),
        (b"student,a1-privacy\nana,1,well, nearly\n", "more cells"),
        (b"student,a1-privacy\nana,nan\n", "from 0 to 1"),
    ],
)
def test_a_sheet_that_cannot_be_read_is_left_alone(tmp_path, content, said):
    path = tmp_path / "by_hand.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        gradebook.write(master_of(1), [Grade("ana")], tmp_path)
    assert path.read_bytes() == content


def test_points_by_hand_survive_a_full_disk_and_are_not_written_without_need(tmp_path):
    """The sheet is the only copy: it is written beside itself, and replaced when it is whole."""
    resource = pytest.importorskip("resource")
    master, path = master_of(1), tmp_path / "by_hand.csv"
    add_manual(master, [Grade(f"student {k}") for k in range(2000)], path)
    content, about = path.read_bytes(), path.stat()
    add_manual(master, [Grade(f"student {k}") for k in range(2000)], path)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (about.st_ino, about.st_mtime_ns)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            add_manual(master, [Grade("new")], path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["by_hand.csv"]
    path.chmod(0o640)
    add_manual(master, [Grade("new")], path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_person_may_change_points_and_the_student_reads_why(tmp_path):
    def graded(lines):
        sheet(tmp_path, "changed.csv", f"student,task,points,reason\n{lines}\n")
        results = [Grade("ana", {STEP: 0.0, "a1-epoch-bill-check": 3.0}), Grade("ben", {STEP: 1.0})]
        return results, gradebook.write(master_of(1), results, tmp_path)

    said = 'ana,a1-step-weights,"2,5",too strict\nana,late,-2,two days late\nben,late,5,lost'
    said += "\nzoe,late,-1,?"
    for _ in range(2):  # grading again changes nothing
        (ana, ben), unknown = graded(said)
        assert (ana.total, ben.total, ana.points[STEP]) == (3.5, 0.0, 2.5)
        assert len(unknown) == 1
        assert unknown[0].startswith("changed.csv: 'zoe' has no submission")
    page = (tmp_path / "feedback" / "ana.html").read_text()
    assert "2,5 points (too strict)" in page
    assert "-2 points (two days late)" in page
    assert (tmp_path / "changed.csv").read_text().splitlines()[1:] == said.splitlines()
    for wrong, words in (
        ("ana,a1-step,3,why", "one of a1-step-messages"),
        ("ana,a1-step-weights,3,", "a reason, which the student will read"),
        ("ana,a1-step-weights,30,why", "from 0 to 3"),
        ("ana,late,nan,why", "write a number"),
    ):
        with pytest.raises(ValueError, match=words):
            graded(wrong)


def test_an_odd_time_of_a_file_stops_nobody(tmp_path):
    """Some disks keep the year 300000, and a student may have set it."""
    sheet(tmp_path, "late.csv", "student,due,per day,grace minutes\n,2026-10-05 23:59,1,\n")
    times = {"ana": 1e9, "eve": 1e13, "fay": -1e13, "gil": 4e18}
    results = [Grade(who, {STEP: 3.0}, handed_in=who, saved=when) for who, when in times.items()]
    assert gradebook.write(master_of(1), results, tmp_path) == []
    assert [result.late for result in results] == [0, -12, 0, -12]


def test_the_second_run_tells_a_student_nothing(monkeypatch):
    """It has seen hidden checks, and the code that runs in it chooses its own errors."""
    runs = [grading._Run(ended=True), grading._Run(notes=["a syntax error in answer"])]
    monkeypatch.setattr(grading, "_run", lambda *_: runs.pop(0))
    run, _ = grading._run_all(lambda **_: {}, {}, grading.Limits())
    assert run.notes == ["second run: a syntax error in answer"]
    page = gradebook.feedback(master_of(1), Grade("ana", notes=run.notes))
    assert "syntax" not in page


def test_of_a_file_that_is_too_large_no_more_is_read(tmp_path):
    """A sparse file of a terabyte takes no space, and its hash would take hours."""
    with open(tmp_path / "eve.ipynb", "wb") as file:
        file.truncate(1 << 40)
    assert len(grading._key(tmp_path / "eve.ipynb", master_of(1), 1)) == 64


def test_lateness_takes_points_by_a_rule_and_a_person_may_overrule_it(tmp_path):
    """Times come from the platform's table, else from a file that no platform has named."""
    names = {
        "ana": ("ana", "2026-10-05 23:59", 0),  # at the deadline
        "ben": ("ben", "2026-10-06 00:09", 0),  # within the grace
        "cem": ("cem", "2026-10-06 00:10", -1.2),
        "dan": ("dan", "2026-10-08 00:00", -3.6),  # the third day has begun
        "eve": ("eve", "2026-10-08 00:00", 0),  # has more time
        "fay": ("fay", "2026-12-08 00:00", -12),  # not more than all points
        "gil": ("gil", "2026-10-08 00:00", -1),  # a person has decided
        "Hal_7": (MOODLE.format("Hal", 7), "2030-01-01 00:00", -2.4),  # its table counts
        "Ian_8": (MOODLE.format("Ian", 8), "2030-01-01 00:00", 0),  # not in the table: unknown
        "jo_90": ("jo_90_12_a", "2030-01-01 00:00", 0),  # Canvas does not say that it is late
        "ko_91": ("ko_LATE_91_23_a", "2030-01-01 00:00", 0),
        "lea": ("lea", "2030-01-01 00:00", 0),  # cannot be read
    }

    def graded():
        results = [
            Grade(who, {STEP: 3.0}, handed_in=file, saved=datetime.fromisoformat(when).timestamp())
            for who, (file, when, _) in names.items()
        ]
        results[-1].status = f"{UNREAD}: not JSON"
        return {r.student: r for r in results}, gradebook.write(master_of(1), results, tmp_path)

    assert not any(result.late for result in graded()[0].values())  # no rule
    late = "student,due,per day,grace minutes\n,2026-10-05 23:59,10%,10\n"
    sheet(tmp_path, "late.csv", f"{late}eve,2026-10-12 23:59,,\nzoe,,1,\n")
    sheet(tmp_path, "changed.csv", "student,task,points,reason\ngil,late,-1,a train\n")
    sheet(
        tmp_path,
        "times.csv",
        "Identifier,Full name,Grade,Last modified (submission)\n"
        'Participant 7,Hal,,"Wednesday, 7 October 2026, 1:05 AM"\nParticipant 8,Ian,,-\n',
    )
    for _ in range(2):
        found, unknown = graded()
        assert len(unknown) == 1
        assert "late.csv: 'zoe' has no submission" in unknown[0]
        for who, (_, _, points) in names.items():
            assert found[who].late == pytest.approx(points), who
            assert found[who].total == pytest.approx(max(0, 3 + points)), who
        unclear = [who for who in found if "when it came is not known" in str(found[who].notes)]
        assert unclear == ["Ian_8", "ko_91"]
    pages = {who: (tmp_path / "feedback" / f"{who}.html").read_text() for who in names}
    said = "late: 2026-10-08 00:00, due 2026-10-05 23:59, days begun: 3, -3.6 points"
    assert said in pages["dan"]
    assert "a train" in pages["gil"]
    assert "days begun" not in pages["gil"] + pages["eve"] + pages["ben"]
    for wrong, words in (
        ("student,due\n", "needs .*'per day', 'grace minutes'"),
        ("student,due,per day,grace minutes\nana,2026-10-05 23:59,1,\n", "without a student"),
        ("student,due,per day,grace minutes\n,2026-10-05,1,\n", "write it as 2026-10-05 23:59"),
        ("student,due,per day,grace minutes\n,2026-10-05 23:59,ten,\n", "per day: 'ten'"),
        ("student,due,per day,grace minutes\n,2026-10-05 23:59,1,-3\n", "grace: '-3'"),
    ):
        sheet(tmp_path, "late.csv", wrong)
        with pytest.raises(ValueError, match=words):
            graded()
    sheet(tmp_path, "late.csv", late)
    sheet(tmp_path, "times.csv", "student,when\nana,2026-10-05 23:59\n")
    with pytest.raises(ValueError, match="needs one of"):
        graded()


def test_a_person_may_write_a_full_name(tmp_path, monkeypatch, capsys):
    """Names are found as for a platform; who is not is named with the file and the nearest name.

    Then what waits for a mark, and who could not be graded, is told before totals go out.
    """
    moodle, canvas = MOODLE.format("Lena Lutz", 1213), "durrdavid_90017_55_a"

    def graded(*_, **__):
        return [
            Grade("Lena_Lutz_1213", {STEP: 1.0}, notes=["handed in as ..."], handed_in=moodle),
            Grade("durrdavid_90017", {STEP: 3.0}, handed_in=canvas),
            Grade("ben", status=f"{AGAIN}: the kernel did not start"),
            Grade("cem", status=f"{UNREAD}: not JSON"),
            Grade("eve", notes=["not answered: a1-privacy"]),
        ]

    monkeypatch.setattr(grading, "grade", graded)
    monkeypatch.chdir(FOLDER.parents[1])
    grade = ["grade", str(tmp_path), "--assignment", "1", "--out", str(tmp_path)]
    assert cli.main(grade) == 0
    assert "'a1-privacy' is not marked yet for 2 students" in capsys.readouterr().out
    by_hand = tmp_path / "by_hand.csv"
    by_hand.write_text(by_hand.read_text() + "Lena Lutz,1\n")
    changed = "student,task,points,reason\nlena lutz,a1-step-weights,2,right\n"
    sheet(tmp_path, "changed.csv", f"{changed}lena lotz 1213,a1-step-weights,2,right\n")
    late = "student,due,per day,grace minutes\n,2999-10-05 23:59,1,\n"
    sheet(tmp_path, "late.csv", f"{late}durrdavid,2026-10-05 23:59,,\n")
    times = "student,handed in\ndurrdavid,2026-10-06 23:00\nLena Lutz,2026-10-06 23:00\n"
    sheet(tmp_path, "times.csv", times)
    sheet(tmp_path, "r.csv", "Student,ID,SIS Login ID\nD,90017,d\nB,2,ben\nC,3,cem\nE,4,eve\n")
    roster = ["--roster", str(tmp_path / "r.csv"), "--column", "A 1"]
    assert cli.main([*grade, *roster]) == 1
    said = capsys.readouterr().out
    for words in (
        "changed.csv: 'lena lotz 1213' has no submission, or another line; did you mean 'Lena_Lutz",
        "'a1-privacy' is not marked yet for 1 students",
        "no submission graded: ben, cem",
        "graded, but not in the roster: Lena_Lutz_1213",
        "left out: ben: not graded, run grade again",
        "left out: cem: not graded, cannot be read: not JSON",
    ):
        assert words in said
    assert "handed in as" not in said
    with open(tmp_path / "gradebook.csv", newline="") as file:
        table = list(csv.DictReader(file))
    listed = json.loads((tmp_path / "gradebook.json").read_text())
    assert [{name: str(value) for name, value in row.items()} for row in listed] == table
    rows = [(row[STEP], row["late"], row["total"]) for row in table][:2]
    assert rows == [("2.0", "0.0", "3.0"), ("3.0", "-1.0", "2.0")]
    table = (tmp_path / "import.csv").read_text().splitlines()[1:]
    assert table == ["D,90017,d,2", "B,2,ben,", "C,3,cem,", "E,4,eve,0"]
    by_hand.write_text(by_hand.read_text().replace("1213,", "1213,0.5"))
    cli.main(grade)
    assert "by_hand.csv: 'Lena Lutz' has no submission, or another line" in capsys.readouterr().out
    assert cli.main([*grade, *roster[:2]]) == 2


@pytest.mark.parametrize(
    ("header", "lines", "names", "points"),
    [
        ("Student,SIS Login ID", ["A,ana", "B,ben"], ["ana", "zoe"], ["1", ""]),
        ("First name,Email address", ["Ana,ana@x.org"], ["ana"], ["1"]),
        ("Group,Email address", ["1,a@x.org", "2,a@y.org"], ["a@x.org"], ["1", ""]),
        ("Username,First name,Last name", ["u1,Ana,Li"], ["ana_li"], ["1"]),
        ("Full name", ["Ana Müller", "Ben"], ["ana_mueller"], ["1", ""]),
        ("SIS Login ID", ["kim"], ["kim (1)", "kim (2)"], [""]),  # two downloads of one name
        ("SIS Login ID", ["ana", "ben"], ["Ana", "ana", "b\u0435n"], ["2", ""]),
        ("Note,SIS Login ID", ["'-x,ana"], ["ana"], ["1"]),  # no cell of another column changes
    ],
)
def test_the_line_of_each_student(tmp_path, header, lines, names, points):
    """A line that fits nobody, or several, stays empty; a letter of another alphabet fits none."""
    text = "\n".join([f"{header},A 1", *(f"{line}," for line in lines)])
    sheet(tmp_path, "roster.csv", text + "\n")
    results = [Grade(name, {STEP: n}, handed_in=name) for n, name in enumerate(names, 1)]
    about = (tmp_path / "roster.csv", results, tmp_path / "out.csv")
    missing, unused = gradebook.fill_lms(*about, column="A 1")
    wanted = [f"{line},{given}" for line, given in zip(lines, points, strict=True)]
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1:] == wanted
    assert len(missing) == points.count("")
    assert len(unused) == len(names) - len(points) + len(missing)


def test_rosters_that_are_not_clear(tmp_path):
    for text, words in (
        ("Email address,A 1\nana@x.org,\nana@y.org,\n", "'ana@x.org' and 'ana@y.org' both fit"),
        ("SIS Login ID,A 1 (77)\nana,\n", r"give the whole header, one of \['A 1 \(77\)'\]"),
        ("Name,A 1\nana,\n", "it needs one of"),
    ):
        sheet(tmp_path, "roster.csv", text)
        with pytest.raises(ValueError, match=words):
            gradebook.fill_lms(
                tmp_path / "roster.csv", [Grade("ana", handed_in="ana")], Path("x"), column="A 1"
            )
    for name in ("ana_mueller", "ana muller"):  # whatever the others have handed in
        lines = [{"Full name": "Ana Müller"}, {"Full name": "Ben Ito"}]
        assert whose("", lines, {name: name}) == {0: name}


def test_feedback_is_inert_and_says_nothing_that_is_for_the_instructor():
    evil = "<script>alert(1)</script>"
    notes = ["worth a look: network", f"missing cell: {evil}", "handed in as 'x'"]
    # a note on a hidden check is a bit that the student's code can choose
    kinds = ("flood of output, dropped", "the time was up", "MemoryError", "SystemExit")
    notes += [f"in a hidden check: {kind}: {STEP}" for kind in kinds]
    told = {"answers": {"a1-split-step": evil}, "output": {"a1-split-step": evil, STEP: evil}}
    status = "the kernel ended (code 77)"
    page = gradebook.feedback(master_of(1), Grade("ana", {STEP: 0.0}, status, notes, **told))
    for word in ("missing cell", "the kernel ended", "tell your instructor", "not marked yet"):
        assert word in page
    for word in ("worth a look", "handed in", "77", "<script>", *kinds):
        assert word not in page


def test_feedback_gives_no_hint_where_there_is_no_answer():
    task = master_of(1).tasks[0]
    for output, hinted in (("NameError", False), ("NotImplementedError", False), ("", True)):
        result = Grade("ana", {task.id: 0, "more": 9}, output={task.id: output})
        page = gradebook.feedback(master_of(1), result)
        assert (task.hint in html.unescape(page)) is hinted
        assert page.startswith("<title>ana: 9 of 12 points</title>")
    nothing = Grade("ana", {task.id: 0}, status=f"{UNREAD}: a folder with no notebook")
    page = gradebook.feedback(master_of(1), nothing)
    assert "<h1>ana: not graded</h1>" in page
    assert "a folder with no notebook" in page
    assert task.title not in page


def test_the_summary_counts_and_names_only_who_gives_a_reason_to_look(tmp_path):
    notes = {who: [f"handed in as '{who}_assignsubmission_file_'"] for who in ("Ana_1", "Ben_2")}
    notes["Ben_2"] += ["worth a look: network"]
    results = [Grade(who, {STEP: 1.0}, notes=said) for who, said in notes.items()]
    results[1].answers["a1-privacy"] = "<b>No.</b>"
    gradebook.write(master_of(1), results, tmp_path)
    table, looks = (tmp_path / "summary.html").read_text().split("Worth a look")
    assert "<td>3</td><td>1.0</td><td>0</td><td>2</td><td>0</td><td>0</td>" in table
    assert "Ben_2</td><td>graded; worth a look: network<" in looks
    assert "Ana_1" not in looks
    assert "a1-privacy</h3><table><tr><td>Ben_2</td><td>&lt;b&gt;No.&lt;/b&gt;<" in looks
    assert "handed in as 'Ana_1" in (tmp_path / "gradebook.csv").read_text()
