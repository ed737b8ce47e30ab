/**
 * The code that runs the files of a bundled codec. It is the body of a function with the parameter `files` and stores
 * the functions that the files define in `entries`. It is ECMAScript 5 for older network servers. It saves the built-in
 * functions that it needs when it starts, so that no file can break it or the other files.
 *
 * Sloppy-mode files may create globals without declaring them, and different files of a vendor often use the same
 * names. The code therefore records every change that a file makes to the global object or to built-in objects that
 * scripts extend, undoes it when the file is left, and applies it again whenever one of its functions is called.
 */
export const RUN_FILES = `  "use strict";
  var self = this, root = typeof globalThis === "object" ? globalThis : this;
  var listNames = Object.getOwnPropertyNames, describe = Object.getOwnPropertyDescriptor, define = Object.defineProperty, create = Object.create;
  var uncurry = function (method) { return Function.prototype.call.bind(method); };
  var apply = uncurry(Function.prototype.apply), toSource = uncurry(Function.prototype.toString), slice = uncurry(String.prototype.slice);
  var NativePromise = typeof Promise === "function" ? Promise : undefined, then = NativePromise && uncurry(NativePromise.prototype.then);
  var sharedObjects = [Object, Object.prototype, Function.prototype, Array, Array.prototype, String, String.prototype, Number, Number.prototype, Date, Date.prototype, Math, JSON];
  if (root) sharedObjects[sharedObjects.length] = root;
  var entries = {}, guards = [], current, baseline, initialState;

  function captureState() {
    var all = [], names, at, i;
    for (at = 0; at < sharedObjects.length; at += 1) {
      all[at] = create(null);
      names = listNames(sharedObjects[at]);
      for (i = 0; i < names.length; i += 1) all[at][names[i]] = describe(sharedObjects[at], names[i]);
    }
    return all;
  }
  function isSame(a, b) {
    return a.get === b.get && a.set === b.set && a.writable === b.writable && (a.value === b.value || (a.value !== a.value && b.value !== b.value));
  }
  function findChanges(before, after) {
    var changes = [], at, key;
    for (at = 0; at < sharedObjects.length; at += 1) {
      for (key in after[at]) if (!before[at][key] || !isSame(before[at][key], after[at][key])) changes[changes.length] = { target: sharedObjects[at], name: key, before: before[at][key], after: after[at][key] };
      for (key in before[at]) if (!after[at][key]) changes[changes.length] = { target: sharedObjects[at], name: key, before: before[at][key], after: undefined };
    }
    return changes;
  }
  // A property that a file made read-only cannot be restored and stays changed.
  function setProperty(target, name, property) {
    try { if (property) define(target, name, property); else delete target[name]; } catch (error) { return; }
  }
  function undo(changes) {
    for (var at = 0; at < changes.length; at += 1) setProperty(changes[at].target, changes[at].name, changes[at].before);
  }
  function switchTo(file) {
    if (file === current) return;
    if (current) undo(current.changes = findChanges(baseline, captureState()));
    current = file;
    if (!file) return;
    baseline = initialState || captureState();
    for (var at = 0; at < file.changes.length; at += 1) setProperty(file.changes[at].target, file.changes[at].name, file.changes[at].after);
  }
  function restoreGlobals() { switchTo(undefined); }

  function createEntry(file, call) {
    return function () {
      var before = current, isPending = false, result;
      switchTo(file);
      try {
        result = apply(call, this, arguments);
        if (!before && NativePromise && result instanceof NativePromise) {
          then(result, restoreGlobals, restoreGlobals);
          isPending = true;
        }
      } finally { if (!isPending) switchTo(before); }
      return result;
    };
  }
  function createThrower(thrown) { return function () { throw thrown; }; }
  function isEntry(value) { return typeof value === "function" && slice(toSource(value), 0, 5) !== "class"; }
  function findExport(name, exported) {
    if (!exported || (typeof exported !== "object" && typeof exported !== "function")) return undefined;
    var member = exported[name];
    if (isEntry(member)) return member;
    return isEntry(exported) && exported.name === name ? exported : undefined;
  }
  function findEntry(name, own, exported) {
    if (isEntry(own[name])) return own[name];
    return findExport(name, exported) || (exported ? findExport(name, exported.default) : undefined);
  }
  function load(file) {
    var module = { exports: {} }, at, name, own, call;
    switchTo(file);
    try {
      own = apply(file.run, self, [module, module.exports]);
      if (!own) throw new SyntaxError(file.name + " returns outside of a function");
    } catch (thrown) { call = createThrower(thrown); }
    for (at = 0; at < file.names.length; at += 1) {
      name = file.names[at];
      try {
        entries[name] = call || findEntry(name, own, module.exports);
        if (entries[name] && !call) entries[name] = createEntry(file, entries[name]);
      } catch (thrown) { entries[name] = createThrower(thrown); }
    }
    restoreGlobals();
  }

  // While the files load, none of them may freeze the global object: the functions of all files are added to it.
  function guard(method) {
    var real = Object[method];
    guards[guards.length] = { target: Object, name: method, before: describe(Object, method) };
    setProperty(Object, method, { value: function (value) { return value === root ? value : real(value); }, writable: true, enumerable: false, configurable: true });
  }
  guard("freeze"); guard("seal"); guard("preventExtensions");
  initialState = captureState();
  for (var next = 0; next < files.length; next += 1) load(files[next]);
  initialState = undefined;
  undo(guards);`;
