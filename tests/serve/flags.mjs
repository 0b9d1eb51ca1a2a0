// Evaluates a flag again and again with OpenFeature's own client: node flags.mjs URL FLAG KEYS TIMES
import { setTimeout as pause } from "node:timers/promises";
import { OpenFeature } from "@openfeature/web-sdk";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";

const [url, flag, keys, times] = process.argv.slice(2);
const provider = new OFREPWebProvider({ baseUrl: url, pollInterval: 20 });
await OpenFeature.setProviderAndWait(provider, { targetingKey: "user-0" });
const client = OpenFeature.getClient(), found = {};
for (let k = 0; k < Number(times); k++) {
  const targetingKey = `user-${k % Number(keys)}`;
  await OpenFeature.setContext({ targetingKey, visit: k }); // asks the service again
  const { value, variant, reason, errorCode, flagMetadata } = client.getStringDetails(flag, "none");
  (found[targetingKey] ??= new Set()).add([value, variant, reason, errorCode ?? "", flagMetadata.decision].join(" "));
}
await pause(300); // polls, which find nothing new
console.log(JSON.stringify(Object.fromEntries(Object.entries(found).map(([key, seen]) => [key, [...seen]]))));
process.exit(0);
