import type { Sandbox } from '../../codec';
import { commandHandlers, CommandService, EncoderPreviewService } from '../../commands';
import type { Cursors } from '../../kernel/pages';
import type { Foundation } from '../foundation';

/** Creates the handlers of command definitions and of the encoder preview. */
export function createCommands({ database, clock }: Foundation, cursors: Cursors, encoder: Sandbox) {
  return commandHandlers(
    new CommandService({ database, clock, cursors }),
    new EncoderPreviewService({ database, clock, encoder }),
    encoder,
  );
}
