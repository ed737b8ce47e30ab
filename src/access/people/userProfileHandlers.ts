import type { UserProfileServiceServer } from '../../gen/userprofile/user_profile_service';
import type { HandlersOf } from '../../rpc/handlers';
import { userToMessage } from './peopleMessages';
import type { UserService } from './userService';

/** The way from the wire to UserService and back. */
export function userProfileHandlers(users: UserService): HandlersOf<UserProfileServiceServer> {
  return {
    getPersonalUser: async (_request, context) => {
      const user = await users.getPersonalUser(context.principal);
      return userToMessage(user);
    },
  };
}
