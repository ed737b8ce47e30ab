/**
 * What runs the files of a joined codec, as the inside of a function of `files`; it leaves the functions that they define in `entries`. ECMAScript 5,
 * for servers that know no newer one. What files replace is taken at its start: no file can break it, nor the others.
 *
 * A file in sloppy code may make globals without declaring them, and two files of a vendor like to call them alike. So all that a file changes of the
 * global object, or of the built-in objects that scripts extend, is taken away behind it and put back whenever one of its functions is called.
 */
export const RUN_FILES = `  "use strict";
  var self = this, root = typeof globalThis === "object" ? globalThis : this;
  var namesOf = Object.getOwnPropertyNames, describe = Object.getOwnPropertyDescriptor, define = Object.defineProperty, create = Object.create;
  var bound = function (method) { return Function.prototype.call.bind(method); };
  var apply = bound(Function.prototype.apply), textOf = bound(Function.prototype.toString), cut = bound(String.prototype.slice);
  var Later = typeof Promise === "function" ? Promise : undefined, then = Later && bound(Later.prototype.then);
  var spots = [Object, Object.prototype, Function.prototype, Array, Array.prototype, String, String.prototype, Number, Number.prototype, Date, Date.prototype, Math, JSON];
  if (root) spots[spots.length] = root;
  var entries = {}, guards = [], current, around, untouched;

  function seen() {
    var all = [], names, at, i;
    for (at = 0; at < spots.length; at += 1) {
      all[at] = create(null);
      names = namesOf(spots[at]);
      for (i = 0; i < names.length; i += 1) all[at][names[i]] = describe(spots[at], names[i]);
    }
    return all;
  }
  function isSame(a, b) {
    return a.get === b.get && a.set === b.set && a.writable === b.writable && (a.value === b.value || (a.value !== a.value && b.value !== b.value));
  }
  function changesOf(before, after) {
    var changes = [], at, key;
    for (at = 0; at < spots.length; at += 1) {
      for (key in after[at]) if (!before[at][key] || !isSame(before[at][key], after[at][key])) changes[changes.length] = { spot: spots[at], name: key, was: before[at][key], is: after[at][key] };
      for (key in before[at]) if (!after[at][key]) changes[changes.length] = { spot: spots[at], name: key, was: before[at][key], is: undefined };
    }
    return changes;
  }
  // What a file made so that nobody can change it stays as it is.
  function put(spot, name, property) {
    try { if (property) define(spot, name, property); else delete spot[name]; } catch (error) { return; }
  }
  function undo(changes) {
    for (var at = 0; at < changes.length; at += 1) put(changes[at].spot, changes[at].name, changes[at].was);
  }
  function moveTo(file) {
    if (file === current) return;
    if (current) undo(current.changes = changesOf(around, seen()));
    current = file;
    if (!file) return;
    around = untouched || seen();
    for (var at = 0; at < file.changes.length; at += 1) put(file.changes[at].spot, file.changes[at].name, file.changes[at].is);
  }
  function leave() { moveTo(undefined); }

  function entryOf(file, call) {
    return function () {
      var before = current, isUnderWay = false, answer;
      moveTo(file);
      try {
        answer = apply(call, this, arguments);
        if (!before && Later && answer instanceof Later) {
          then(answer, leave, leave);
          isUnderWay = true;
        }
      } finally { if (!isUnderWay) moveTo(before); }
      return answer;
    };
  }
  function thrower(thrown) { return function () { throw thrown; }; }
  function isEntry(value) { return typeof value === "function" && cut(textOf(value), 0, 5) !== "class"; }
  function exportedAs(name, exported) {
    if (!exported || (typeof exported !== "object" && typeof exported !== "function")) return undefined;
    var member = exported[name];
    if (isEntry(member)) return member;
    return isEntry(exported) && exported.name === name ? exported : undefined;
  }
  function found(name, own, exported) {
    if (isEntry(own[name])) return own[name];
    return exportedAs(name, exported) || (exported ? exportedAs(name, exported.default) : undefined);
  }
  function load(file) {
    var module = { exports: {} }, at, name, own, call;
    moveTo(file);
    try {
      own = apply(file.run, self, [module, module.exports]);
      if (!own) throw new SyntaxError(file.name + " returns outside of a function");
    } catch (thrown) { call = thrower(thrown); }
    for (at = 0; at < file.names.length; at += 1) {
      name = file.names[at];
      try {
        entries[name] = call || found(name, own, module.exports);
        if (entries[name] && !call) entries[name] = entryOf(file, entries[name]);
      } catch (thrown) { entries[name] = thrower(thrown); }
    }
    leave();
  }

  // While they load, no file may make the global object one that cannot take the functions of all.
  function guard(method) {
    var real = Object[method];
    guards[guards.length] = { spot: Object, name: method, was: describe(Object, method) };
    put(Object, method, { value: function (value) { return value === root ? value : real(value); }, writable: true, enumerable: false, configurable: true });
  }
  guard("freeze"); guard("seal"); guard("preventExtensions");
  untouched = seen();
  for (var next = 0; next < files.length; next += 1) load(files[next]);
  untouched = undefined;
  undo(guards);`;
