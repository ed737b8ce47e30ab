import { newId } from '../../src/kernel/ids';
import { createMoveCommand } from './plant';
import { METHODS, type MethodName, callMethod, type ResponseFields, type CallResult } from './auditCalls';
import type { Running } from './site';
import type { StoredState } from './auditState';

/** A call that was made. */
export interface Attempt {
  readonly requestId: string;
  readonly path: string;
  /** Whether the effect of the call is visible in the stored state; undefined if it cannot be visible. */
  readonly isDone: (storedState: StoredState) => boolean | undefined;
  reply: CallResult;
}

/** The calls on one object that is created, changed and deleted, in order. */
export type CallSequence = Attempt[];

class ServerGoneError extends Error {}

/**
 * Creates, changes and deletes objects of every kind, alternately over gRPC and HTTP, until the server is killed. Records
 * every call in a sequence.
 */
export class AuditWriter {
  private calls = 0;

  constructor(
    private readonly running: Running,
    private readonly connectionId: string,
    private readonly sequences: CallSequence[],
    private readonly onResponse: () => void,
  ) {}

  /** Resolves when the server has been killed. */
  async work(): Promise<void> {
    try {
      const valve = await this.createValve();
      for (;;) {
        await this.changeDevice();
        await this.executeCommand(valve);
        await this.changeKey();
        await this.changeMember();
        await this.call(this.startSequence(), 'updateDevice', { id: newId(), name: 'Missing' }, () => false);
      }
    } catch (error) {
      if (!(error instanceof ServerGoneError)) throw error;
    }
  }

  private async createValve(): Promise<{ id: string; commandId: string }> {
    const name = newId();
    const sequence = this.startSequence();
    const { id = '' } = await this.call(
      sequence,
      'createDevice',
      { name, physicalDevice: { clientDeviceId: name, connectionId: this.connectionId } },
      hasDeviceNamed,
      name,
    );
    const command = await this.call(
      this.startSequence(),
      'createCommand',
      { id, command: createMoveCommand(false) },
      () => undefined,
      newId(),
      false,
    ); // over gRPC only: JSON has names for its enum values
    return { id, commandId: command.id ?? '' };
  }

  private async changeDevice(): Promise<void> {
    const sequence = this.startSequence();
    const name = newId();
    const { id = '' } = await this.call(sequence, 'createDevice', { name }, hasDeviceNamed, name);
    const other = newId();
    await this.call(sequence, 'updateDevice', { id, name: other }, ({ devices }) => devices.get(id) === other, other);
    if (this.calls % 2 === 0) await this.call(sequence, 'deleteDevice', { id }, ({ devices }) => !devices.has(id));
  }

  private async executeCommand(valve: { id: string; commandId: string }): Promise<void> {
    const triggerId = newId();
    await this.call(
      this.startSequence(),
      'execute',
      { ...valve, params: { n: this.calls }, triggerId },
      ({ triggers }) => triggers.has(triggerId),
      triggerId,
    );
  }

  private async changeKey(): Promise<void> {
    const sequence = this.startSequence();
    const name = newId();
    const made = await this.call(
      sequence,
      'createKey',
      { name, scopes: ['devices:read'] },
      ({ keys }) => keys.some((key) => key.name === name),
      name,
    );
    const id = made.apiKey?.id ?? '';
    const rotated = await this.call(sequence, 'rotateKey', { id }, ({ keys }) =>
      keys.some((key) => key.rotatedFrom === id),
    );
    const next = rotated.apiKey?.id ?? '';
    await this.call(sequence, 'revokeKey', { id: next }, ({ keys }) =>
      keys.some((key) => key.id === next && key.revokedAt !== undefined),
    );
  }

  private async changeMember(): Promise<void> {
    const sequence = this.startSequence();
    const name = newId();
    const { userId = '' } = await this.call(
      sequence,
      'addMember',
      { name, roleId: 'viewer' },
      ({ members }) => [...members.values()].includes(name),
      name,
    );
    await this.call(sequence, 'removeMember', { userId }, ({ members }) => !members.has(userId));
  }

  private startSequence(): CallSequence {
    const sequence: CallSequence = [];
    this.sequences.push(sequence);
    return sequence;
  }

  private async call(
    sequence: CallSequence,
    name: MethodName,
    fields: object,
    isDone: (storedState: StoredState, requestId: string) => boolean | undefined,
    requestId = newId(),
    overHttp = this.calls % 2 === 1,
  ): Promise<ResponseFields> {
    this.calls += 1;
    const attempt: Attempt = {
      requestId,
      path: METHODS[name].path,
      isDone: (storedState) => isDone(storedState, requestId),
      reply: { kind: 'gone' },
    };
    sequence.push(attempt);
    attempt.reply = await callMethod(this.running, name, fields, requestId, overHttp);
    if (attempt.reply.kind === 'gone') throw new ServerGoneError();
    this.onResponse();
    return attempt.reply.kind === 'done' ? attempt.reply.response : {};
  }
}

/** Whether the device exists that a request created: objects are named after the id of their request. */
const hasDeviceNamed = ({ devices }: StoredState, requestId: string): boolean =>
  [...devices.values()].includes(requestId);
