import { truncateForDisplay } from '../../kernel/truncate';
import type { ImportWarning, IncompleteEntries } from './readVendor';

const MAX_WARNINGS = 100;
/** The maximum length of a file name or a reason, in characters. */
const MAX_LENGTH = 400;
const MAX_SHOWN_NAMES = 5;
/** The maximum number of distinct warnings in memory. Further warnings are only counted, including repeated ones. */
const MAX_DISTINCT_WARNINGS = 10_000;

/** The profiles and models that are skipped because of a broken file. */
interface SkippedProfiles {
  profileCount: number;
  /** The ids of their models. */
  readonly models: Set<string>;
}

/** A collected warning. */
interface WarningEntry extends ImportWarning {
  /** What is skipped because of the file; undefined: the reason of the warning says it. */
  readonly skippedProfiles: SkippedProfiles | undefined;
}

/**
 * Collects the warnings about a vendor, or about the list of vendors: each one once, with the profiles that are not
 * imported because of it.
 */
export class ImportWarnings {
  /** By file and reason. */
  private readonly entries = new Map<string, WarningEntry>();
  /** The ids of models or vendors that were incompletely read. */
  private readonly incompleteIds = new Set<string>();
  private areAllIncomplete = false;
  /** The number of warnings that were not stored because there are MAX_DISTINCT_WARNINGS already. */
  private discardedCount = 0;

  /** Adds a warning whose reason says what is not imported. */
  add(file: string, reason: string): void {
    this.addEntry(file, reason, undefined);
  }

  /** Adds a warning about a broken file that one profile of this model needs. */
  addSkippedProfile({ file, reason }: ImportWarning, model: string): void {
    this.markIncompletelyRead(model);
    const { skippedProfiles } = this.addEntry(file, reason, { profileCount: 0, models: new Set() });
    if (!skippedProfiles) return; // `add` stored this warning first: its reason already says what is not imported
    skippedProfiles.profileCount += 1;
    skippedProfiles.models.add(model);
  }

  /**
   * Marks a model or a vendor as incompletely read, so that its stored profiles that were not found now do not count as
   * gone. `id`: of the model, or of the vendor in the warnings about the list of vendors.
   */
  markIncompletelyRead(id: string): void {
    this.incompleteIds.add(id);
  }

  /** Marks all models, or all vendors, as incompletely read. */
  markAllIncompletelyRead(): void {
    this.areAllIncomplete = true;
  }

  /** Adds the warning that a vendor exceeds a limit, and marks all of its models as incompletely read. */
  addLimitExceeded(file: string, limit: string): void {
    this.add(file, `has more than ${limit}; the rest of the vendor is not imported`);
    this.markAllIncompletelyRead();
  }

  /** Returns which entries were read incompletely. */
  getIncompletelyRead(): IncompleteEntries {
    return { all: this.areAllIncomplete, ids: [...this.incompleteIds] };
  }

  /**
   * Lists the first MAX_WARNINGS warnings in the order of their addition. If there are more, the last item is a warning
   * about `folder` with the number of warnings that are not listed.
   */
  list(folder: string): ImportWarning[] {
    const entries = [...this.entries.values()];
    const listed = entries.slice(0, MAX_WARNINGS).map(({ file, reason, skippedProfiles }) => ({
      file: toSingleLine(file),
      reason: toSingleLine(reason) + (skippedProfiles ? formatSkippedProfiles(skippedProfiles) : ''),
    }));
    if (entries.length <= MAX_WARNINGS) return listed;
    const unlistedCount = entries.length + this.discardedCount - MAX_WARNINGS;
    return [
      ...listed,
      {
        file: folder,
        reason: `has ${unlistedCount} more warnings, which are not shown; fix those above and import again`,
      },
    ];
  }

  /**
   * Returns the entry of a warning, and stores it if it is new. With too many entries, a new one is returned but not
   * stored.
   */
  private addEntry(file: string, reason: string, skippedProfiles: SkippedProfiles | undefined): WarningEntry {
    const key = `${file}\n${reason}`;
    const entry = this.entries.get(key) ?? { file, reason, skippedProfiles };
    if (this.entries.size < MAX_DISTINCT_WARNINGS || this.entries.has(key)) this.entries.set(key, entry);
    else this.discardedCount += 1;
    return entry;
  }
}

/** Returns the end of a reason, for example `; therefore not imported: 1 profile of the model "t100"`. */
function formatSkippedProfiles({ profileCount, models }: SkippedProfiles): string {
  return `; therefore not imported: ${profileCount === 1 ? '1 profile' : `${profileCount} profiles`} of the model${models.size === 1 ? '' : 's'} ${formatNames([...models])}`;
}

/** Formats the first five names and the number of further names. */
export function formatNames(names: readonly string[]): string {
  const more = names.length > MAX_SHOWN_NAMES ? ` and ${names.length - MAX_SHOWN_NAMES} more` : '';
  return `${names
    .slice(0, MAX_SHOWN_NAMES)
    .map((name) => toSingleLine(JSON.stringify(name)))
    .join(', ')}${more}`;
}

/** Replaces line breaks and control characters by spaces, and truncates the text. */
function toSingleLine(text: string): string {
  return truncateForDisplay(text.replace(/[\s\p{Cc}]+/gu, ' '), MAX_LENGTH).toWellFormed();
}
