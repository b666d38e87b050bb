/** What the pages of the course load: the laboratory, the calculator, the exercises. */

import { Lab } from "./lab";
import { Toy } from "./toy";
import { bindExercises } from "./exercise";

customElements.define("uwaga-lab", Lab);
customElements.define("uwaga-toy", Toy);
bindExercises(document);
