// How search results are ranked. Sphinx's index does not say how often a page has a word, so by
// itself it ranks a page about MPI like one that mentions it. OFTEN, which build.py fills in, does:
// stem of a word -> {page: how strongly it is about that word}. Guides come
// first among equals, records last.
var OFTEN = {};

var Scorer = {
  score: ([page, , , , score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().match(/\w+/g) || [];
    const stems = words.map((word) => new Stemmer().stemWord(word));
    const often = stems.reduce((sum, stem) => sum + ((OFTEN[stem] || {})[page] || 0), 0);
    const record = /^(adr|changes|contributing|results|debug\/(zoo|doctor))\b/.test(page) ? 0.5 : 1;
    const twin = page.startsWith("algorithms/tf1/") ? 0.7 : 1;
    const guide = page.includes("/") ? 0 : 2;
    return (score + guide + often / Math.max(1, stems.length)) * record * twin;
  },
  objNameMatch: 11, // the name of a function or class
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
