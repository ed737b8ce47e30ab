import { shortened } from '../../kernel/shortened';
import type { ImportWarning, Unread } from './readVendor';

const MOST = 100;
const LONGEST = 400;
/** From then on they are only counted, also one that came before. */
const MOST_TOLD_APART = 10_000;

/** What a broken thing costs. */
interface Cost {
  profiles: number;
  readonly models: Set<string>;
}

interface Noted extends ImportWarning {
  /** Undefined: nothing but what the reason says. */
  readonly cost: Cost | undefined;
}

/** Collects what is wrong with the files of a vendor: each thing once, with all that it costs. */
export class ImportWarnings {
  private readonly noted = new Map<string, Noted>();
  private readonly unread = new Set<string>();
  private isAllUnread = false;
  private further = 0;

  /** Something that costs what its reason says. */
  add(file: string, reason: string): void {
    this.note(file, reason, undefined);
  }

  /** Something that costs one profile of this model. */
  costsProfile({ file, reason }: ImportWarning, model: string): void {
    this.leaves(model);
    const { cost } = this.note(file, reason, { profiles: 0, models: new Set() });
    if (!cost) return;
    cost.profiles += 1;
    cost.models.add(model);
  }

  /** Something of this model, or of this vendor, could not be read; without a name: of any. */
  leaves(id?: string): void {
    if (id === undefined) this.isAllUnread = true;
    else this.unread.add(id);
  }

  /** All that comes after too much of something in a vendor. */
  leavesRest(file: string, tooMuch: string): void {
    this.add(file, `leads to more than ${tooMuch}; the rest of the vendor is not imported`);
    this.leaves();
  }

  /** What could not be read. */
  left(): Unread {
    return { all: this.isAllUnread, ids: [...this.unread] };
  }

  /** The first hundred as they came; if there are more, one that counts them, of `folder`. */
  all(folder: string): ImportWarning[] {
    const all = [...this.noted.values()];
    const shown = all.slice(0, MOST).map(({ file, reason, cost }) => ({ file: oneLine(file), reason: oneLine(reason) + (cost ? costs(cost) : '') }));
    return all.length > MOST ? [...shown, { file: folder, reason: `has ${all.length + this.further - MOST} more warnings, which are not shown; mend those above and import again` }] : shown;
  }

  private note(file: string, reason: string, cost: Cost | undefined): Noted {
    const key = `${file}\n${reason}`;
    const known = this.noted.get(key) ?? { file, reason, cost };
    if (this.noted.size < MOST_TOLD_APART || this.noted.has(key)) this.noted.set(key, known);
    else this.further += 1;
    return known;
  }
}

function costs({ profiles, models }: Cost): string {
  return `; this costs ${profiles === 1 ? 'a profile' : `${profiles} profiles`} of the model${models.size === 1 ? '' : 's'} ${some([...models])}`;
}

/** The first five of names, and how many more there are. */
export function some(names: readonly string[]): string {
  const more = names.length > 5 ? ` and ${names.length - 5} more` : '';
  return `${names.slice(0, 5).map((name) => oneLine(JSON.stringify(name))).join(', ')}${more}`;
}

function oneLine(text: string): string {
  return shortened(text.replace(/[\s\p{Cc}]+/gu, ' '), LONGEST).toWellFormed();
}
