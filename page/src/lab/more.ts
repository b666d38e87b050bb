/** Parts that are loaded on demand: the comparison of models, the frames of training, the model trained in the page. */

export { compareTab } from "./compare_tab";
export { Frames } from "./frames";
export { Training } from "./train";
