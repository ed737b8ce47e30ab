import type { Found } from '../guestWords';
import type { EntryPoint } from '../roles';
import { isClass } from './intrinsics';

/** A function of the script's. */
export type EntryFunction = (...values: readonly unknown[]) => unknown;

/** The script's function of a name: a global, else what it exported, also as the default of a module. Classes are none. */
export function entryPoint(name: EntryPoint, found: Found): EntryFunction | undefined {
  const global = found[name];
  if (isFunction(global)) return global;
  const { exports } = found;
  return exportedAs(name, exports) ?? (isObject(exports) ? exportedAs(name, exports.default) : undefined);
}

/** A member of what was exported, or that itself if it is a function of this name. */
function exportedAs(name: EntryPoint, exported: unknown): EntryFunction | undefined {
  if (!isObject(exported)) return undefined;
  const member = exported[name];
  if (isFunction(member)) return member;
  return isFunction(exported) && exported.name === name ? exported : undefined;
}

function isFunction(value: unknown): value is EntryFunction {
  return typeof value === 'function' && !isClass(value as EntryFunction);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
