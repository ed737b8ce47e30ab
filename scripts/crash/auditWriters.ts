import { newId } from '../../src/kernel/ids';
import { moveCommand } from './plant';
import { METHODS, type MethodName, send, type Answered, type Reply } from './auditCalls';
import type { Running } from './site';
import type { Kept } from './auditState';

/** A call that was tried. */
export interface Attempt {
  readonly requestId: string;
  readonly path: string;
  /** Whether what it was to do is seen in what is kept; undefined: that cannot be seen. */
  readonly isDone: (kept: Kept) => boolean | undefined;
  reply: Reply;
}

/** One thing that is made, changed and removed: what was tried on it, one after the other. */
export type Story = Attempt[];

class Gone extends Error {}

/** Changes things of every kind, one after the other, over gRPC and HTTP in turns, until the server is gone. Every call goes into a story. */
export class AuditWriter {
  private calls = 0;

  constructor(
    private readonly running: Running,
    private readonly connectionId: string,
    private readonly stories: Story[],
    private readonly answered: () => void,
  ) {}

  /** Resolves when the server is gone. */
  async work(): Promise<void> {
    try {
      const valve = await this.valve();
      for (;;) {
        await this.device();
        await this.execution(valve);
        await this.key();
        await this.member();
        await this.call(this.story(), 'updateDevice', { id: newId(), name: 'Nowhere' }, () => false);
      }
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
    }
  }

  private async valve(): Promise<{ id: string; commandId: string }> {
    const name = newId();
    const story = this.story();
    const { id = '' } = await this.call(story, 'createDevice', { name, physicalDevice: { clientDeviceId: name, connectionId: this.connectionId } }, named, name);
    const command = await this.call(this.story(), 'createCommand', { id, command: moveCommand(false) }, () => undefined, newId(), false); // its enums are words in JSON
    return { id, commandId: command.id ?? '' };
  }

  private async device(): Promise<void> {
    const story = this.story();
    const name = newId();
    const { id = '' } = await this.call(story, 'createDevice', { name }, named, name);
    const other = newId();
    await this.call(story, 'updateDevice', { id, name: other }, ({ devices }) => devices.get(id) === other, other);
    if (this.calls % 2 === 0) await this.call(story, 'deleteDevice', { id }, ({ devices }) => !devices.has(id));
  }

  private async execution(valve: { id: string; commandId: string }): Promise<void> {
    const triggerId = newId();
    await this.call(this.story(), 'execute', { ...valve, params: { n: this.calls }, triggerId }, ({ triggers }) => triggers.has(triggerId), triggerId);
  }

  private async key(): Promise<void> {
    const story = this.story();
    const name = newId();
    const made = await this.call(story, 'createKey', { name, scopes: ['devices:read'] }, ({ keys }) => keys.some((key) => key.name === name), name);
    const id = made.apiKey?.id ?? '';
    const rotated = await this.call(story, 'rotateKey', { id }, ({ keys }) => keys.some((key) => key.rotatedFrom === id));
    const next = rotated.apiKey?.id ?? '';
    await this.call(story, 'revokeKey', { id: next }, ({ keys }) => keys.some((key) => key.id === next && key.revokedAt !== undefined));
  }

  private async member(): Promise<void> {
    const story = this.story();
    const name = newId();
    const { userId = '' } = await this.call(story, 'addMember', { name, roleId: 'viewer' }, ({ members }) => [...members.values()].includes(name), name);
    await this.call(story, 'removeMember', { userId }, ({ members }) => !members.has(userId));
  }

  private story(): Story {
    const story: Story = [];
    this.stories.push(story);
    return story;
  }

  private async call(story: Story, name: MethodName, given: object, isDone: (kept: Kept, requestId: string) => boolean | undefined, requestId = newId(), overHttp = this.calls % 2 === 1): Promise<Answered> {
    this.calls += 1;
    const attempt: Attempt = { requestId, path: METHODS[name].path, isDone: (kept) => isDone(kept, requestId), reply: { kind: 'gone' } };
    story.push(attempt);
    attempt.reply = await send(this.running, name, given, requestId, overHttp);
    if (attempt.reply.kind === 'gone') throw new Gone();
    this.answered();
    return attempt.reply.kind === 'done' ? attempt.reply.told : {};
  }
}

/** Things are named by the request that is to make them. */
const named = ({ devices }: Kept, requestId: string): boolean => [...devices.values()].includes(requestId);
