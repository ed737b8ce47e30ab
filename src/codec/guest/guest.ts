import type { Found, Guest, GuestInput } from '../guestWords';
import { makeConsole, type LogSink } from './console';
import { define } from './define';
import { cut, glue, isClass, parse, stringify, whenSettled } from './intrinsics';
import { readResult } from './readResult';
import { showThrown } from './show';

const MESSAGE_LENGTH = 1000;
const STACK_LENGTH = 8192;
const NEVER_SETTLED = '{"problem":{"code":"bad_output","message":"the encoder returned a promise that is never settled; it must return {bytes: [1, 2, 3]}"},"warnings":[]}';

type AnyFunction = (...values: readonly unknown[]) => unknown;
const isFunction = (value: unknown): value is AnyFunction => typeof value === 'function' && !isClass(value as AnyFunction);

/**
 * Lays the globals of the scripts, and gives the host its three words. Evaluated before the user's script, in a context of its own.
 * `isPromise` is the host's: only the engine knows a promise from what looks like one.
 */
export function makeGuest(sink: LogSink, isPromise: (value: unknown) => boolean): Guest {
  const exports = {};
  define({ console: makeConsole(sink), module: { exports }, exports, self: globalThis, global: globalThis });
  let state: 'settled' | 'waiting' | 'broken' = 'settled';
  let result: unknown;

  /** Keeps what the encoder returned; of a promise, what it is settled with. */
  function keep(returned: unknown): void {
    result = returned;
    if (!isPromise(returned)) return;
    state = 'waiting';
    whenSettled(returned, (value) => ((state = 'settled'), (result = value)), (reason) => ((state = 'broken'), (result = reason)));
  }

  return {
    call(found, input) {
      const run = chosen(found, parse(input) as GuestInput);
      if (run) keep(run());
      return run !== undefined;
    },
    read() {
      if (state === 'broken') throw result;
      return state === 'waiting' ? NEVER_SETTLED : readResult(result);
    },
    explain: (thrown) => glue('{"message":', stringify(showThrown(thrown, MESSAGE_LENGTH)), ',"stack":', stringify(stackOf(thrown)), '}'),
  };
}

/** The encoder to call, in its own form: the new one, else the older ones. */
function chosen(found: Found, { data, fPort, variables }: GuestInput): (() => unknown) | undefined {
  const encodeDownlink = functionNamed('encodeDownlink', found);
  if (encodeDownlink) return () => encodeDownlink(fPort === undefined ? { data, variables } : { data, fPort, variables });
  const encode = functionNamed('Encode', found);
  if (encode) return () => encode(fPort, data, variables);
  const encoder = functionNamed('Encoder', found);
  return encoder && (() => encoder(data, fPort));
}

type EncoderName = 'encodeDownlink' | 'Encode' | 'Encoder';

/** A global of the script, else what it exported, also as the default of a module. */
function functionNamed(name: EncoderName, found: Found): AnyFunction | undefined {
  const global = found[name];
  if (isFunction(global)) return global;
  const { exports } = found;
  return exportedAs(name, exports) ?? (isObject(exports) ? exportedAs(name, exports.default) : undefined);
}

/** A member of what was exported, or that itself if it is a function of this name. */
function exportedAs(name: EncoderName, exported: unknown): AnyFunction | undefined {
  if (!isObject(exported)) return undefined;
  const member = exported[name];
  if (isFunction(member)) return member;
  return isFunction(exported) && exported.name === name ? exported : undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

function stackOf(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null) return '';
  try {
    const { stack } = thrown as { stack?: unknown };
    return typeof stack === 'string' ? cut(stack, STACK_LENGTH) : '';
  } catch {
    return '';
  }
}

// The host takes it from here, and away, before any script runs.
define({ makeGuest });
