import type { User as UserMessage } from '../../gen/userprofile/user_profile_service';
import { toTimestamp } from '../../kernel/timestamps';
import type { User } from './user';

/** A person on the wire. */
export function userToMessage(user: User): UserMessage {
  return { id: user.id, name: user.name, email: user.email, createdAt: toTimestamp(user.createdAt), updatedAt: toTimestamp(user.updatedAt), memberships: [] };
}
