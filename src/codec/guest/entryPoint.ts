import type { ScriptDefinitions } from '../sandboxProtocol';
import type { EntryPoint } from '../roles';
import { isClass } from './intrinsics';

/** A function of the script. */
export type EntryFunction = (...values: readonly unknown[]) => unknown;

/**
 * Finds the script's function with this name: a global, a member of `module.exports`, or a member of its `default`.
 * Classes are ignored, because they cannot be called.
 */
export function findEntryPoint(name: EntryPoint, definitions: ScriptDefinitions): EntryFunction | undefined {
  const global = definitions[name];
  if (isFunction(global)) return global;
  const { exports } = definitions;
  return (
    findExportedFunction(name, exports) ?? (isObject(exports) ? findExportedFunction(name, exports.default) : undefined)
  );
}

/** Finds a member of the exported value, or returns the value itself if it is a function with this name. */
function findExportedFunction(name: EntryPoint, exported: unknown): EntryFunction | undefined {
  if (!isObject(exported)) return undefined;
  const member = exported[name];
  if (isFunction(member)) return member;
  return isFunction(exported) && exported.name === name ? exported : undefined;
}

function isFunction(value: unknown): value is EntryFunction {
  return typeof value === 'function' && !isClass(value as EntryFunction);
}

/** Whether the value can have members, which is also true for a function. */
function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
