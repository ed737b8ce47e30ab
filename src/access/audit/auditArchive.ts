import type { Database } from '../../database';
import { AuditChainRepository } from './auditChainRepository';
import { EMPTY_CHAIN, type AuditEvent, type ChainEnds } from './auditEvent';
import { AuditListRepository, type AuditFilter, type AuditPosition } from './auditListRepository';
import type { AuditRow } from './auditRepository';
import { ChainCheck, type ChainPlace } from './chainCheck';

/** Events of one look of those who read whole chains. */
const AT_ONCE = 500;
const LOOKS = 20_000;
/** How often a check begins anew because the retention has shortened the chain meanwhile. */
const TRIES = 5;

/** The chains as the command line reads them. */
export class AuditArchive {
  private readonly chain: AuditChainRepository;

  constructor(private readonly database: Database) {
    this.chain = new AuditChainRepository(database.db);
  }

  /** The names of all chains: organizations, and the empty one. */
  async *chains(): AsyncGenerator<string> {
    for (let chain = await this.chain.next(undefined); chain !== undefined; chain = await this.chain.next(chain)) yield chain;
  }

  /** The ends of a chain; undefined where nothing says where they are. */
  async ends(chain: string): Promise<ChainEnds | undefined> {
    return await this.chain.ends(chain);
  }

  /** Organizations without a chain, though each was made with one. */
  async *organizationsWithout(): AsyncGenerator<string> {
    for (let ids = await this.chain.organizationsWithout('', AT_ONCE); ids.length > 0; ids = await this.chain.organizationsWithout(ids.at(-1) ?? '', AT_ONCE)) yield* ids;
  }

  /** Whether there is anything that a chain of this name could be of: an organization, events, or that of none. */
  async isKnown(chain: string): Promise<boolean> {
    return chain === '' || (await this.chain.ends(chain)) !== undefined || (await this.chain.isOrganization(chain)) || (await this.chain.largest(chain)) !== undefined;
  }

  /** An event's place; undefined where there is none. */
  async place(chain: string, seq: number): Promise<ChainPlace | undefined> {
    const [row] = await this.chain.from(chain, seq, 1);
    return row?.seq === seq ? { seq, hash: row.hash } : undefined;
  }

  /** The newest events of a chain that fit, at most `limit`. */
  async newest(chain: string, filter: AuditFilter, limit: number): Promise<AuditEvent[]> {
    const repository = new AuditListRepository(this.database.db);
    const events: AuditEvent[] = [];
    let position: AuditPosition | undefined;
    do {
      const found = await repository.find(chain, filter, position, limit - events.length, LOOKS);
      events.push(...found.events);
      position = found.stopped;
    } while (position && events.length < limit);
    return events;
  }

  /** The rows of a chain from a place on, some at a time. */
  async *rows(chain: string, fromSeq: number): AsyncGenerator<readonly AuditRow[]> {
    for (let rows = await this.chain.from(chain, fromSeq, AT_ONCE); rows.length > 0; rows = await this.chain.from(chain, (rows.at(-1)?.seq ?? 0) + 1, AT_ONCE)) yield rows;
  }

  /**
   * Follows a chain from its beginning to where it ends now; a server may go on with it meanwhile. `seen`: called with the number of
   * events that were looked at.
   */
  async check(chain: string, expected: ChainPlace | undefined, seen: (events: number) => void): Promise<ChainCheck> {
    for (let attempt = 1; ; attempt++) {
      const ends = await this.chain.ends(chain);
      const check = await this.follow(chain, ends, expected, seen);
      const largest = await this.chain.largest(chain);
      const now = await this.chain.ends(chain);
      if (attempt < TRIES && now?.firstSeq !== ends?.firstSeq) continue; // the retention shortens it
      await this.checkEnds(check, ends, now !== undefined && largest !== undefined && largest > now.lastSeq);
      check.checkExpected();
      return check;
    }
  }

  private async checkEnds(check: ChainCheck, ends: ChainEnds | undefined, beyond: boolean): Promise<void> {
    if (ends) {
      check.checkBeginning();
      await this.goBack(check.chain, ends.firstSeq, check);
      check.checkEnd({ seq: ends.lastSeq, hash: ends.lastHash }, beyond);
    } else if (check.chain !== '' || check.events > 0) check.checkEnd(undefined, false); // else nothing has happened yet that belongs to no organization
  }

  /** What stands before the beginning is what a retention that is under way still has to remove, or was put there. */
  private async goBack(chain: string, firstSeq: number, check: ChainCheck): Promise<void> {
    for (let rows = await this.chain.before(chain, firstSeq, AT_ONCE); rows.length > 0; rows = await this.chain.before(chain, rows.at(-1)?.seq ?? 0, AT_ONCE)) {
      for (const row of rows) check.takeGivenUp(row);
    }
  }

  private async follow(chain: string, ends: ChainEnds | undefined, expected: ChainPlace | undefined, seen: (events: number) => void): Promise<ChainCheck> {
    const { firstSeq, firstPrevious, lastSeq } = ends ?? { ...EMPTY_CHAIN, lastSeq: Infinity };
    const check = new ChainCheck(chain, { seq: firstSeq - 1, hash: firstPrevious }, expected);
    for await (const rows of this.rows(chain, firstSeq)) {
      const wanted = rows.filter(({ seq }) => seq <= lastSeq);
      for (const row of wanted) check.take(row);
      seen(check.events);
      if (wanted.length < rows.length) break;
    }
    return check;
  }
}
