// The node environment, and a worker that compiles each file once: jest compiles all of node_modules and src again for every test file.
// It also fails a test file that leaves a handle open, and ends one that hangs (test/support/openHandles.cjs, fileTimeLimit.cjs).
const vm = require('node:vm');
const { relative } = require('node:path');
const { TestEnvironment } = require('jest-environment-node');
const { startFileTimeLimit } = require('./test/support/fileTimeLimit.cjs');
const { listHandles, closeOpenHandles } = require('./test/support/openHandles.cjs');

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
  constructor(config, context) {
    // Jest passes a Proxy as the global object; through it every use of a global (`Number`, `Math`) is slow.
    vm.createContext = () => createContext(vm.constants.DONT_CONTEXTIFY);
    try {
      super(config, context);
    } finally {
      vm.createContext = createContext;
    }
    this.file = relative(config.projectConfig.rootDir, context.testPath);
  }

  async setup() {
    await super.setup();
    this.endTimeLimit = startFileTimeLimit(this.file);
    this.handlesBefore = listHandles();
  }

  handleTestEvent({ name, test }) {
    if (name === 'test_done' && test.errors.length > 0) this.hasFailed = true;
  }

  async teardown() {
    await super.teardown();
    const open = await closeOpenHandles(this.handlesBefore);
    this.endTimeLimit();
    // A test that failed may leave things open, and its own error must be shown.
    if (open.length > 0 && !this.hasFailed)
      throw Object.assign(
        new Error(
          `${this.file} left open: ${open.join(', ')}. Close it in the helper that opened it; npm test -- --detectOpenHandles ${this.file} shows where that was.`,
        ),
        { stack: '' }, // it would show this file
      );
  }
};
