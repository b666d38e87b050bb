/** What the pages of the course load: the laboratory, the calculator, the exercises. */

import { bindExercises } from "./exercise";
import { CourseLab } from "./course_lab";
import { speak } from "./messages";
import { Toy } from "./toy";

await speak(document.documentElement.lang);
customElements.define("uwaga-lab", CourseLab);
customElements.define("uwaga-toy", Toy);
bindExercises(document);
