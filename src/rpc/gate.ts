import type { Principal } from '../kernel/principal';

/** Things of which a limited key sees some; as `plantroom.v1.LimitedThing` names them. */
export type LimitedThing = 'device' | 'command' | 'execution' | 'connection' | 'sensor' | 'media';

/** Things that a request names. */
export interface NamedThings {
  readonly thing: LimitedThing;
  readonly ids: readonly string[];
}

/** Tells what lies outside the reach of a limited key; the edge needs it, app.ts hands it in. */
export interface Gate {
  /** Passes where all of them are inside. Throws what is said of an id that nobody has, letter by letter. Only asked for limited keys. */
  pass(principal: Principal, named: readonly NamedThings[]): Promise<void>;
}
