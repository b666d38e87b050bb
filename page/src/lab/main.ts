/** What the pages of the course load: the laboratory, the calculator, the exercises. */

import { bindExercises } from "./exercise";
import { Lab } from "./lab";
import { speak } from "./messages";
import { Toy } from "./toy";

await speak(document.documentElement.lang);
customElements.define("uwaga-lab", Lab);
customElements.define("uwaga-toy", Toy);
bindExercises(document);
