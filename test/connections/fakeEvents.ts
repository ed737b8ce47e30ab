import type {
  Attachment,
  ConnectorEvents,
  Evidence,
  EvidenceOutcome,
  KnownExecution,
  UplinkMessage,
  UplinkOutcome,
} from '../../src/connections';

/** Evidence as a connector reported it. */
export interface ReportedEvidence {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly executionId: string;
  readonly source: string;
  readonly evidence: Evidence;
}

/** Records the events of a connector and returns the results that the test set. */
export class FakeEvents implements ConnectorEvents {
  readonly uplinks: UplinkMessage[] = [];
  readonly evidences: ReportedEvidence[] = [];
  readonly attachments: Attachment[] = [];
  readonly readies: string[] = [];
  readonly detachments: string[] = [];
  onUplink: (message: UplinkMessage) => Promise<UplinkOutcome> = async () => ({ outcome: 'stored' });
  onEvidence: (executionId: string) => Promise<EvidenceOutcome> = async () => 'applied';
  onDetached: (connectionId: string) => Promise<void> = async () => {};
  onAttached: (attachment: Attachment) => Promise<void> = async () => {};
  private waiting: (() => void)[] = [];

  async uplink(message: UplinkMessage): Promise<UplinkOutcome> {
    this.uplinks.push(message);
    this.notifyWaiting();
    return await this.onUplink(message);
  }

  async evidence(
    organizationId: string,
    connectionId: string,
    executionId: string,
    source: string,
    evidence: Evidence,
  ): Promise<EvidenceOutcome> {
    this.evidences.push({ organizationId, connectionId, executionId, source, evidence });
    this.notifyWaiting();
    return await this.onEvidence(executionId);
  }

  async deviceEvidence(
    organizationId: string,
    connectionId: string,
    clientDeviceId: string,
    source: string,
    evidence: Evidence,
  ): Promise<EvidenceOutcome> {
    return await this.evidence(organizationId, connectionId, `of ${clientDeviceId}`, source, evidence);
  }

  async attached(attachment: Attachment): Promise<ReadonlyMap<KnownExecution, EvidenceOutcome>> {
    this.attachments.push(attachment);
    this.notifyWaiting();
    await this.onAttached(attachment);
    return new Map(attachment.known.map((known) => [known, 'applied']));
  }

  async detached(_organizationId: string, connectionId: string): Promise<void> {
    this.detachments.push(connectionId);
    this.notifyWaiting();
    await this.onDetached(connectionId);
  }

  ready(_organizationId: string, connectionId: string): void {
    this.readies.push(connectionId);
    this.notifyWaiting();
  }

  /** Resolves when the condition holds. The condition is checked after each event. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  private notifyWaiting(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/** A promise that a test settles manually. */
export interface Gate<T> {
  readonly promise: Promise<T>;
  readonly open: (value: T) => void;
}

/** Creates a pending gate. */
export function gate<T>(): Gate<T> {
  const opened: { resolve?: (value: T) => void } = {};
  const promise = new Promise<T>((resolve) => (opened.resolve = resolve));
  return { promise, open: (value) => opened.resolve?.(value) };
}

/** Returns the id of an uplink whose connector assigns ids. */
export function getUplinkId({ identity }: UplinkMessage): string {
  return identity.kind === 'id' ? identity.uplinkId : '';
}
