// What the bundle of protos says of itself, and of how to make stubs.
import { parse, stringify } from 'yaml';

/** The rules of the repository for a folder that holds the protos themselves; what others wrote is not looked at. */
export function bufYaml(ofRepository) {
  const { version, lint, breaking } = parse(ofRepository);
  const ignored = Object.entries(lint.ignore_only)
    .map(([rule, paths]) => [rule, paths.map((path) => path.replace(/^proto\//, '')).filter((path) => path !== 'grpc')])
    .filter(([, paths]) => paths.length > 0);
  const google = { ignore: ['google'] };
  const text = stringify({ version, modules: [{ path: '.' }], lint: { ...lint, ...google, ignore_only: Object.fromEntries(ignored) }, breaking: { ...breaking, ...google } }, { aliasDuplicateObjects: false });
  return `# buf lint and buf build work in this folder; buf breaking --against another bundle compares two versions.\n${text}`;
}

const inputs = [{ directory: '.', exclude_paths: ['google'] }];
const notGoogles = (option) => [{ file_option: option, path: 'google' }];

/** Templates of buf for the languages that want to be told where in a program the stubs are. */
export const templates = {
  'buf.gen.go.yaml': `# Write the import path of the folder gen in your module where example.com/yours/gen stands.\n${stringify({
    version: 'v2',
    managed: { enabled: true, disable: notGoogles('go_package'), override: [{ file_option: 'go_package_prefix', value: 'example.com/yours/gen' }] },
    plugins: ['protoc-gen-go', 'protoc-gen-go-grpc'].map((local) => ({ local, out: 'gen', opt: 'paths=source_relative' })),
    inputs,
  })}`,
  'buf.gen.java.yaml': `# The one proto without a package is given one: Java cannot import what has none.\n${stringify({
    version: 'v2',
    managed: {
      enabled: true,
      disable: notGoogles('java_package'),
      override: [
        { file_option: 'java_package_prefix', value: 'com.example.plantroom' },
        { file_option: 'java_package', path: 'organizations_service.proto', value: 'com.example.plantroom' },
      ],
    },
    plugins: [
      { protoc_builtin: 'java', out: 'gen' },
      { local: 'protoc-gen-grpc-java', out: 'gen' },
    ],
    inputs,
  })}`,
};

const OURS = "$(find . -name '*.proto' -not -path './google/*')";

/** The README of the bundle. */
export function readme(version) {
  return `# Protos of Plantroom ${version}

Everything that is needed to make a client in any language: the protos of all services, what they import, and the same compiled
(\`plantroom.binpb\`, a \`google.protobuf.FileDescriptorSet\` with comments and imports). \`VERSION\` is the version of the server that they were
released with; older and newer servers understand what is made of them. TypeScript needs none of this: there is the package \`plantroom-client\`.

Run one of these in this folder, after \`mkdir gen\`. It makes the stubs in \`gen\`.

| for | do |
|---|---|
| Python | \`pip install grpcio-tools googleapis-common-protos\`, then \`python -m grpc_tools.protoc -I . --python_out=gen --pyi_out=gen --grpc_python_out=gen ${OURS}\` |
| Go | \`buf generate --template buf.gen.go.yaml\`, with the import path of your module in that file; it needs protoc-gen-go and protoc-gen-go-grpc |
| Java | \`buf generate --template buf.gen.java.yaml\`, with your package in that file; it needs protoc and protoc-gen-grpc-java |
| C# | \`protoc -I . --csharp_out=gen --grpc_out=gen --plugin=protoc-gen-grpc=$(command -v grpc_csharp_plugin) ${OURS}\`, or Grpc.Tools in the project |
| no stubs | \`grpcurl -protoset plantroom.binpb ...\`; libraries for dynamic messages read \`plantroom.binpb\` |

The stubs of \`google/api\` and \`google/rpc\` come as packages (Python: googleapis-common-protos, Go: google.golang.org/genproto, Java:
proto-google-common-protos, C#: Google.Api.CommonProtos): do not make them yourself. Health checks and reflection are gRPC's own: their
protos and stubs come with gRPC.

Every call carries the metadata \`x-api-key\` and \`x-organization-id\`. The certificate of the server is checked against its \`tls/ca.pem\`.
`;
}
