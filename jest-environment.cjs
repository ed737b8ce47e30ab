// The node environment, and a worker that compiles each file once: jest compiles all of node_modules and src again for every test file.
const vm = require('node:vm');
const { TestEnvironment } = require('jest-environment-node');

const { compileFunction, createContext } = vm;
const scripts = new Map();

// A Script belongs to no context: every test file runs the compiled code of those before in a context of its own, with modules of its own.
vm.compileFunction = (source, params, options) => {
  const { filename, parsingContext } = options ?? {};
  if (!parsingContext || !filename || source.startsWith('#!') || source.includes('import('))
    return compileFunction(source, params, options);
  const head = `(function (${params.join(', ')}) {`;
  let known = scripts.get(filename);
  if (known?.source !== source || known.head !== head) {
    known = { source, head, script: new vm.Script(`${head}${source}\n})`, { filename, columnOffset: -head.length }) };
    scripts.set(filename, known);
  }
  return known.script.runInContext(parsingContext);
};

/** The environment of a test file, with a plain global object. Tests themselves use the function of Node.js. */
module.exports = class extends TestEnvironment {
  constructor(...options) {
    // Jest passes a Proxy as the global object; through it every use of a global (`Number`, `Math`) is slow.
    vm.createContext = () => createContext(vm.constants.DONT_CONTEXTIFY);
    try {
      super(...options);
    } finally {
      vm.createContext = createContext;
    }
  }
};
