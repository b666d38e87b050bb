// Spanish and Polish for the search, whose words are found by their beginnings: it looks for a word without its ending, so
// that "cabezas" finds "cabeza" and "głowa" finds "głowy", with or without accents.
(() => {
  const endings = {
    es: ["es", "as", "os", "a", "o", "e", "s"],
    pl: [
      "owania", "owaniu", "owanie", "ością", "ości", "ość", "iami", "iach", "ami", "ach", "owi", "iem", "iego", "ego", "emu", "imi",
      "ymi", "ich", "ych", "iej", "ej", "ów", "om", "em", "im", "ym", "ią", "ię", "ie", "ia", "iu", "ii", "ą", "ę", "a", "e", "i",
      "o", "u", "y",
    ],
  };
  const plain = (word) => word.normalize("NFD").replace(/\p{M}/gu, "").replaceAll("ł", "l");
  const fold = (token) => token.update(plain);
  lunr.Pipeline.registerFunction(fold, "fold");

  for (const [language, ends] of Object.entries(endings)) {
    lunr[language] = function () {
      this.pipeline.reset();
      this.pipeline.add(fold);
      this.searchPipeline?.reset();
      clauseWithout(ends);
    };
  }

  /** Change the words of a query. */
  function clauseWithout(ends) {
    const { clause } = lunr.Query.prototype;
    lunr.Query.prototype.clause = function (changed) {
      const word = changed.term.replace(/\*$/, "");
      const ending = ends.find((end) => word.length > end.length + 3 && word.endsWith(end));
      changed.term = `${plain(ending ? word.slice(0, -ending.length) : word)}*`;
      return clause.call(this, changed);
    };
  }
})();
