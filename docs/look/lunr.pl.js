// Polish for the search: words without their commonest endings, so that "głowy" and "głowie" find "głowa".
(() => {
  const endings = [
    "owaniami", "owaniach", "owaniem", "owania", "owaniu", "owanie", "ościami", "ościach", "ością", "ości", "ość",
    "iejszych", "iejszy", "iejsza", "iejsze", "iami", "iach", "ami", "ach", "owi", "ów", "om", "iem", "em", "iego", "ego",
    "iemu", "emu", "imi", "ymi", "ich", "ych", "iej", "ej", "ią", "ią", "ię", "ie", "ia", "iu", "ii", "im", "ym",
    "ą", "ę", "a", "e", "i", "o", "u", "y",
  ];
  lunr.pl = function () {
    this.pipeline.reset();
    this.pipeline.add(lunr.pl.trimmer, lunr.pl.stopWordFilter, lunr.pl.stemmer);
    if (this.searchPipeline) {
      this.searchPipeline.reset();
      this.searchPipeline.add(lunr.pl.stemmer);
    }
  };
  lunr.pl.trimmer = (token) => token.update((word) => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ""));
  lunr.pl.stopWordFilter = lunr.generateStopWordFilter("a i o u w z do że na się nie to jest są od po za dla jak co".split(" "));
  lunr.pl.stemmer = (token) =>
    token.update((word) => {
      const ending = endings.find((end) => word.length > end.length + 2 && word.endsWith(end));
      return ending ? word.slice(0, -ending.length) : word;
    });
  lunr.Pipeline.registerFunction(lunr.pl.trimmer, "trimmer-pl");
  lunr.Pipeline.registerFunction(lunr.pl.stopWordFilter, "stopWordFilter-pl");
  lunr.Pipeline.registerFunction(lunr.pl.stemmer, "stemmer-pl");
})();
