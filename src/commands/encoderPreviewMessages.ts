import type { EncoderPreview as PreviewMessage, PreviewEncoderRequest } from '../gen/actuator_command/v2/actuator_command_service';
import type { EncoderPreview, PreviewRequest } from './encoderPreview';

/** The encoder to try. */
export function previewFromMessage(message: PreviewEncoderRequest): PreviewRequest {
  return { script: message.customEncoder, template: message.encodedParamsTemplate, params: message.params ?? {}, fPort: message.fPort };
}

/** What came of it, as it is answered. */
export function previewToMessage({ output, logs, warnings, executionTimeMs, error }: EncoderPreview): PreviewMessage {
  return {
    output: output && outputToMessage(output),
    logs: [...logs],
    warnings: [...warnings],
    executionTimeMs,
    error: error && { code: error.code, message: error.message, lineNumber: error.lineNumber },
  };
}

function outputToMessage({ bytes, fPort }: NonNullable<EncoderPreview['output']>): NonNullable<PreviewMessage['output']> {
  const buffer = Buffer.from(bytes);
  return { bytes: [...bytes], bytesHex: buffer.toString('hex'), bytesBase64: buffer.toString('base64'), fPort };
}
