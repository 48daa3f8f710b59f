// How search results are ranked. Sphinx's index does not say how often a page has a word, so by
// itself it ranks a page about MPI like one that mentions it. OFTEN, which build.py fills in, does:
// stem of a word, or stems of two words in a row -> {page: how strongly it is about them}. A page
// with the query in its title comes first; records and long lists come after explanations,
// except for the bug zoo if it is asked for by name.
var OFTEN = {};

var Scorer = {
  score: ([page, title, , , score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().match(/\w+/g) || [];
    const stems = words.map((word) => new Stemmer().stemWord(word));
    const about = (key) => (OFTEN[key] || {})[page] || 0;
    const single = stems.reduce((sum, stem) => sum + about(stem), 0) / Math.max(1, stems.length);
    const pairs = stems.slice(1).reduce((sum, stem, i) => sum + about(`${stems[i]} ${stem}`), 0);
    const record = /^(adr|changes|contributing|results|debug\/zoo|spinningup\/keypapers)\b/;
    const named = title.toLowerCase().includes(query.toLowerCase().trim()) ? 15 : 0;
    const after = record.test(page) && !(named && page === "debug/zoo");
    const weight = after ? 0.5 : page.startsWith("algorithms/tf1/") ? 0.7 : 1;
    const guide = page.includes("/") ? 0 : 2;
    return (score + named + guide + single + pairs) * weight;
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
