import { Cell } from './cell';
import type { Role } from '../roles';
import type { Engine } from './engine';

/** What is evaluated in a cell before the user's script. */
export interface Preludes {
  /** The guest side of encoders. */
  readonly encoder: string;
  /** The guest side of decoders. */
  readonly decoder: string;
  /** Defines atob, btoa, TextEncoder and TextDecoder. */
  readonly encoding: string;
  /** Defines `Buffer`. */
  readonly buffer: string;
  /** Defines `require`; needs `Buffer`. */
  readonly require: string;
}

// These take longer to load than most scripts to run: only where a script names what they define.
const OPTIONAL = [
  { names: /\b(atob|btoa|TextEncoder|TextDecoder)\b/, prelude: 'encoding' },
  { names: /\b(Buffer|require)\b/, prelude: 'buffer' },
  { names: /\brequire\b/, prelude: 'require' },
] as const;

/** A clean cell, the caller's to close, and what kind it is. */
export interface TakenCell {
  readonly cell: Cell;
  readonly kind: string;
}

/** Keeps a clean cell of each kind ready, so that a script does not wait for one. */
export class CellStock {
  private readonly ready = new Map<string, Cell>();

  constructor(
    private readonly engine: Engine,
    private readonly preludes: Preludes,
  ) {
    this.prepare('encoder');
  }

  /** A cell for a role, with what the script names. */
  take(role: Role, script: string): TakenCell {
    const guest = role === 'encoder' ? 'encoder' : 'decoder';
    const kind = [guest, ...OPTIONAL.filter(({ names }) => names.test(script)).map(({ prelude }) => prelude)].join();
    const cell = this.ready.get(kind) ?? this.open(kind);
    this.ready.delete(kind);
    return { cell, kind };
  }

  /** Opens the next one of a kind; for when nothing else is to do. */
  prepare(kind: string): void {
    if (!this.ready.has(kind)) this.ready.set(kind, this.open(kind));
  }

  private open(kind: string): Cell {
    return new Cell(this.engine, (kind.split(',') as (keyof Preludes)[]).map((prelude) => this.preludes[prelude]));
  }
}
