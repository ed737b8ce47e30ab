import { evictOldest } from '../../kernel/evictOldest';
import type { Cursors } from '../../kernel/pages';

const MAX_CACHED_TOKENS = 4096;

/** Creates and reads the resume tokens of watches: encrypted positions in the event log of an organization. */
export class ResumeTokens {
  // By organization and position; the oldest entries are evicted first. It is only a cache: every server creates its
  // own tokens.
  private readonly cached = new Map<string, string>();

  constructor(private readonly cursors: Cursors) {}

  /**
   * Returns the same token for all readers of an event, so that a thousand watchers cost one encryption. Use it for
   * readers who receive the event at the position, or may receive all events of the organization; use `create` for
   * others, because equal tokens would tell them that no event happened in between.
   */
  getShared(organizationId: string, position: number): string {
    const key = `${organizationId} ${position}`;
    const cached = this.cached.get(key);
    if (cached !== undefined) return cached;
    const token = this.create(organizationId, position);
    evictOldest(this.cached, MAX_CACHED_TOKENS);
    this.cached.set(key, token);
    return token;
  }

  /**
   * Creates a unique token of a position, for a restricted key: two of them do not reveal whether there were events in
   * between that the key may not see.
   */
  create(organizationId: string, position: number): string {
    return this.cursors.encode(getListKey(organizationId), { position });
  }

  /**
   * Returns the position of a token; undefined for an empty one. Throws `validation_failed` for a token
   * of another organization or an invalid token.
   */
  parse(organizationId: string, token: string): number | undefined {
    return this.cursors.decode<{ position: number }>(getListKey(organizationId), token, 'resumeToken')?.position;
  }
}

/** Returns the list key of resume tokens: a token is invalid for another organization, and as a page token. */
function getListKey(organizationId: string): string[] {
  return [organizationId, 'watch executions'];
}
