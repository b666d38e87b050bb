/** The laboratory for the server's page, loaded when its tab is opened. */

import { Lab } from "./lab";
import { speak } from "./messages";

customElements.define("uwaga-lab", Lab);

export { Lab, speak };
