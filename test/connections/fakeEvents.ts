import type { Attachment, ConnectorEvents, Evidence, EvidenceOutcome, UplinkMessage, UplinkOutcome } from '../../src/connections';

/** Evidence as it was handed up. */
export interface HandedEvidence {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly executionId: string;
  readonly source: string;
  readonly evidence: Evidence;
}

/** Stands for the rooms above: writes down what it is told, and answers what the test set. */
export class FakeEvents implements ConnectorEvents {
  readonly uplinks: UplinkMessage[] = [];
  readonly evidences: HandedEvidence[] = [];
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
    this.tell();
    return await this.onUplink(message);
  }

  async evidence(organizationId: string, connectionId: string, executionId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome> {
    this.evidences.push({ organizationId, connectionId, executionId, source, evidence });
    this.tell();
    return await this.onEvidence(executionId);
  }

  async deviceEvidence(organizationId: string, connectionId: string, clientDeviceId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome> {
    return await this.evidence(organizationId, connectionId, `of ${clientDeviceId}`, source, evidence);
  }

  async attached(attachment: Attachment): Promise<void> {
    this.attachments.push(attachment);
    this.tell();
    await this.onAttached(attachment);
  }

  async detached(_organizationId: string, connectionId: string): Promise<void> {
    this.detachments.push(connectionId);
    this.tell();
    await this.onDetached(connectionId);
  }

  ready(_organizationId: string, connectionId: string): void {
    this.readies.push(connectionId);
    this.tell();
  }

  /** Resolves when the condition holds; looks whenever it is told something. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  private tell(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/** A promise that a test settles by hand. */
export interface Gate<T> {
  readonly promise: Promise<T>;
  readonly open: (value: T) => void;
}

/** A closed gate. */
export function gate<T>(): Gate<T> {
  const opened: { resolve?: (value: T) => void } = {};
  const promise = new Promise<T>((resolve) => (opened.resolve = resolve));
  return { promise, open: (value) => opened.resolve?.(value) };
}

/** The id of an uplink whose connector gives ids. */
export function uplinkIdOf({ identity }: UplinkMessage): string {
  return identity.kind === 'id' ? identity.uplinkId : '';
}
