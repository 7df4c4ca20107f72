drawAll();
const image = document.querySelector("figure img"),
  label = document.querySelector(".panel text.label");
const grey = (color) =>
  color
    .match(/[0-9.]+/g)
    .slice(0, 3)
    .reduce((sum, v) => sum + Number(v), 0);
return {
  paper: grey(getComputedStyle(document.body).backgroundColor),
  text: grey(getComputedStyle(label).fill),
  filter: getComputedStyle(image).filter,
};
