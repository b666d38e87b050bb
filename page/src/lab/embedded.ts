/** The laboratory as the server's page loads it, when its tab is opened. */

import { Lab } from "./lab";
import { speak } from "./messages";

customElements.define("uwaga-lab", Lab);

export { Lab, speak };
