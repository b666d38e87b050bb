/** The script of the course's pages: the laboratory, the calculator, the exercises, and the views of training. */

import { bindExercises } from "./exercise";
import { CourseLab } from "./course_lab";
import { loadMessages } from "./messages";
import { bindPredictions } from "./predict";
import { addReset, showProgress } from "./progress";
import { Toy } from "./toy";

await loadMessages(document.documentElement.lang);
customElements.define("uwaga-lab", CourseLab);
customElements.define("uwaga-toy", Toy);
bindExercises(document);
bindPredictions(document);
addReset(document);
showProgress(document);
if (document.querySelector("uwaga-frames, uwaga-train")) {
  const { Frames, Training } = await import("./more");
  customElements.define("uwaga-frames", Frames);
  customElements.define("uwaga-train", Training);
}
