import type { Database } from '../../database';
import { AuditChainRepository } from './auditChainRepository';
import { EMPTY_CHAIN, INSTALLATION_CHAIN, type AuditEvent, type ChainEnds } from './auditEvent';
import { AuditListRepository, type AuditFilter, type AuditPosition } from './auditListRepository';
import type { AuditRow } from './auditRepository';
import { ChainVerifier, type ChainPosition } from './chainVerifier';

/** Events per query when a whole chain is read. */
const EVENT_BATCH_SIZE = 500;
/** The maximum number of events that one filtered query scans. */
const MAX_SCANNED_EVENTS = 20_000;
/** The maximum number of times that a verification is started, if the retention shortens the chain while it runs. */
const MAX_ATTEMPTS = 5;

/**
 * Reads and verifies the audit chains for the command line. A chain is the audit trail of one organization or of the
 * installation. The hash of each event covers the event before it, so that a later change is noticed. The ends of a
 * chain, its first event and its last one (the head), are also stored separately.
 */
export class AuditArchive {
  private readonly repository: AuditChainRepository;

  constructor(private readonly database: Database) {
    this.repository = new AuditChainRepository(database.db);
  }

  /** Lists the names of all chains: organization ids, and the empty name for events of the installation. */
  async *listChains(): AsyncGenerator<string> {
    for (
      let chain = await this.repository.findNextChain(undefined);
      chain !== undefined;
      chain = await this.repository.findNextChain(chain)
    )
      yield chain;
  }

  /** Returns the ends of a chain; undefined if none are stored. */
  async readEnds(chain: string): Promise<ChainEnds | undefined> {
    return await this.repository.readEnds(chain);
  }

  /** Lists organizations that have no chain. This is an error: each organization is created with a chain. */
  async *listOrganizationsWithoutChain(): AsyncGenerator<string> {
    for (
      let ids = await this.repository.listOrganizationsWithoutChain('', EVENT_BATCH_SIZE);
      ids.length > 0;
      ids = await this.repository.listOrganizationsWithoutChain(ids.at(-1) ?? '', EVENT_BATCH_SIZE)
    )
      yield* ids;
  }

  /**
   * Returns true if a chain with this name can exist: the name is that of the installation's chain, an organization has
   * this id, or ends or events are stored under this name (also those of a deleted organization). Otherwise the
   * operator mistyped the name.
   */
  async canExist(chain: string): Promise<boolean> {
    return (
      chain === INSTALLATION_CHAIN ||
      (await this.repository.readEnds(chain)) !== undefined ||
      (await this.repository.isOrganization(chain)) ||
      (await this.repository.findLastSeq(chain)) !== undefined
    );
  }

  /** Returns the sequence number and the hash of an event; undefined if the event does not exist. */
  async findPosition(chain: string, seq: number): Promise<ChainPosition | undefined> {
    const [row] = await this.repository.listFrom(chain, seq, 1);
    return row?.seq === seq ? { seq, hash: row.hash } : undefined;
  }

  /** Lists the newest events of a chain that match the filter, at most `limit`. */
  async listNewest(chain: string, filter: AuditFilter, limit: number): Promise<AuditEvent[]> {
    const lists = new AuditListRepository(this.database.db);
    const events: AuditEvent[] = [];
    let position: AuditPosition | undefined;
    do {
      const found = await lists.find(chain, filter, position, limit - events.length, MAX_SCANNED_EVENTS);
      events.push(...found.events);
      position = found.nextPosition;
    } while (position && events.length < limit);
    return events;
  }

  /** Yields the rows of a chain from a sequence number on, in ascending order, in batches. */
  async *readRows(chain: string, fromSeq: number): AsyncGenerator<readonly AuditRow[]> {
    for (
      let rows = await this.repository.listFrom(chain, fromSeq, EVENT_BATCH_SIZE);
      rows.length > 0;
      rows = await this.repository.listFrom(chain, (rows.at(-1)?.seq ?? 0) + 1, EVENT_BATCH_SIZE)
    )
      yield rows;
  }

  /**
   * Verifies a chain from its first event to its current last one, even while a server appends to it. `expectedHead`:
   * the last event at an earlier time, which the operator noted then and which the chain must contain. `onProgress` is
   * called with the number of events that were checked. The errors are in the returned verifier.
   */
  async verify(
    chain: string,
    expectedHead: ChainPosition | undefined,
    onProgress: (events: number) => void,
  ): Promise<ChainVerifier> {
    for (let attempt = 1; ; attempt++) {
      const ends = await this.repository.readEnds(chain);
      const verifier = await this.verifyEvents(chain, ends, expectedHead, onProgress);
      // Read in this order, so that an event appended in between does not look like one after the end.
      const lastStoredSeq = await this.repository.findLastSeq(chain);
      const endsAfterwards = await this.repository.readEnds(chain);
      const wasShortened = endsAfterwards?.firstSeq !== ends?.firstSeq; // by the retention, during the verification
      if (wasShortened && attempt < MAX_ATTEMPTS) continue;
      const hasEventsAfterEnd =
        endsAfterwards !== undefined && lastStoredSeq !== undefined && lastStoredSeq > endsAfterwards.lastSeq;
      await this.checkEnds(verifier, ends, hasEventsAfterEnd);
      verifier.checkExpectedHead();
      return verifier;
    }
  }

  /**
   * Checks that the chain begins and ends where its stored ends say. `ends` is undefined if none are stored, which is
   * an error for every chain except an empty chain of the installation. `hasEventsAfterEnd`: there are events after the
   * stored last one.
   */
  private async checkEnds(
    verifier: ChainVerifier,
    ends: ChainEnds | undefined,
    hasEventsAfterEnd: boolean,
  ): Promise<void> {
    if (ends) {
      verifier.checkBeginning();
      await this.checkRemovedEvents(verifier.chain, ends.firstSeq, verifier);
      verifier.checkEnd({ seq: ends.lastSeq, hash: ends.lastHash }, hasEventsAfterEnd);
      return;
    }
    const isEmptyInstallation = verifier.chain === INSTALLATION_CHAIN && verifier.eventCount === 0;
    if (!isEmptyInstallation) verifier.reportMissingStoredEnd();
  }

  /**
   * Checks the events before the beginning of the chain: either a running retention still has to remove them, or
   * somebody inserted them. The verifier receives them newest first.
   */
  private async checkRemovedEvents(chain: string, firstSeq: number, verifier: ChainVerifier): Promise<void> {
    for (
      let rows = await this.repository.listBefore(chain, firstSeq, EVENT_BATCH_SIZE);
      rows.length > 0;
      rows = await this.repository.listBefore(chain, rows.at(-1)?.seq ?? 0, EVENT_BATCH_SIZE)
    ) {
      for (const row of rows) verifier.addRemovedEvent(row);
    }
  }

  /**
   * Returns a verifier that has checked the events from the stored beginning to the stored end of the chain. Events
   * that the server appended after `ends` was read are not checked, because the comparison with the stored end would
   * fail.
   */
  private async verifyEvents(
    chain: string,
    ends: ChainEnds | undefined,
    expectedHead: ChainPosition | undefined,
    onProgress: (events: number) => void,
  ): Promise<ChainVerifier> {
    const { firstSeq, firstPrevious, lastSeq } = ends ?? { ...EMPTY_CHAIN, lastSeq: Infinity };
    const verifier = new ChainVerifier(chain, { seq: firstSeq - 1, hash: firstPrevious }, expectedHead);
    for await (const rows of this.readRows(chain, firstSeq)) {
      const rowsUpToEnd = rows.filter(({ seq }) => seq <= lastSeq);
      for (const row of rowsUpToEnd) verifier.addEvent(row);
      onProgress(verifier.eventCount);
      if (rowsUpToEnd.length < rows.length) break;
    }
    return verifier;
  }
}
